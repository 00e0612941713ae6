package cluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// pulse sends beats and PINGs.
type pulse struct{ *Cluster }

func (p pulse) run() {
	p.ping(false)
	// Not all processes of a rack that was switched on beat at one instant.
	timer := time.NewTimer(rand.N(beatEvery))
	defer timer.Stop()
	for n := 0; ; n++ {
		select {
		case <-p.ctx.Done():
			return
		case <-timer.C:
		}
		begin := time.Now()
		p.ping(n%int(beatEvery/pingEvery) == 0)
		timer.Reset(max(0, pingEvery-time.Since(begin)))
	}
}

func (p pulse) ping(beat bool) {
	if !p.nc.IsConnected() {
		p.disconnected.raise()
		return
	}
	if beat {
		for _, b := range p.own.beats() {
			_ = p.nc.Publish(p.beatSubjectOf(&b), b.encode()) // the PING finds out
		}
	}
	ctx, cancel := context.WithTimeout(p.ctx, pongGap)
	defer cancel()
	if err := p.nc.FlushWithContext(ctx); err != nil {
		if p.ctx.Err() == nil {
			p.noteFailure(fmt.Errorf("no answer to PING: %w", err))
			p.unresponsive.raise()
		}
		return
	}
	select {
	case p.pongs <- time.Now():
	case <-p.ctx.Done():
	}
}
