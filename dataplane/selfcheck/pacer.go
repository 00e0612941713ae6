package selfcheck

import (
	"context"
	"sync/atomic"
	"time"
)

// slice bounds the time for which a simulation keeps a processor from requests: they wait so long
// at most, once, where there is one processor.
const slice = 200 * time.Microsecond

// stepsAClock is how many steps of a simulation, each of 1 to 10 us, share a look at the clock.
const stepsAClock = 8

// pacer slows a computation down to a share of one processor.
type pacer struct {
	share float64
	used  atomic.Int64 // nanoseconds ever computed

	ctx   context.Context //nolint:containedctx // Of one check, between begin and end.
	began time.Time       // of the slice
	steps uint
	timer *time.Timer
}

func (p *pacer) begin(ctx context.Context) {
	p.ctx, p.began, p.steps = ctx, time.Now(), 0
	if p.timer == nil {
		p.timer = time.NewTimer(0)
		<-p.timer.C
	}
}

// step pauses where the slice is over, and returns the context's error.
func (p *pacer) step() error {
	if p.steps++; p.steps%stepsAClock != 0 {
		return nil
	}
	spent := time.Since(p.began)
	if spent < slice {
		return nil
	}
	return p.pause(spent)
}

func (p *pacer) pause(spent time.Duration) error {
	p.used.Add(int64(spent))
	p.timer.Reset(time.Duration(float64(spent) * (1/p.share - 1)))
	select {
	case <-p.timer.C:
	case <-p.ctx.Done():
		p.timer.Stop()
	}
	p.began = time.Now()
	return p.ctx.Err()
}

// end counts the rest of the last slice.
func (p *pacer) end() {
	p.used.Add(int64(time.Since(p.began)))
	p.ctx = nil
}
