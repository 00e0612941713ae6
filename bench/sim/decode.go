package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"
)

// SGLang retries a bootstrap server this often, a second apart.
const (
	lookups     = 15
	lookupEvery = time.Second
)

// errGone means that a leg's prefill worker is dead.
var errGone = errors.New("sim: prefill worker gone")

// kvReceiver brings keys and values to the legs of a decode worker.
type kvReceiver struct {
	*process
	peers *prefillPeers
}

// receive brings r's keys and values to its rank in the background.
func (v *kvReceiver) receive(r *request) {
	lg := r.leg
	lg.ctx, lg.cancel = context.WithCancel(v.ctx)
	lg.admitted = make(chan struct{})
	v.wg.Go(func() {
		defer lg.cancel()
		p := v.peers.enter(lg.addr)
		defer v.peers.exit(p)
		h, f := v.reception(p, r)
		if v.faults.awaitUnhang(v.ctx) {
			r.home.do(func() { r.home.legs.received(r, h, f) })
		}
	})
}

// reception runs a decode leg outside its rank: look-up, wait for pages, transfer. A reason
// with a kind is its failure.
func (v *kvReceiver) reception(p *prefillPeer, r *request) (h handoff, f finishReason) {
	lg := r.leg
	at, err := v.lookUp(p, lg)
	if err != nil {
		return h, legProblem("Decode handshake", r, "decode_req.req", v.explain(err, lg))
	}
	r.home.do(func() {
		if lg.state == legMeeting {
			lg.state = legReady
		}
	})
	select {
	case <-lg.admitted:
	case <-p.lost:
		err = errGone
	case <-lg.ctx.Done():
		err = lg.ctx.Err()
	}
	if err == nil {
		h, err = v.pull(p, r, at)
	}
	if err != nil {
		f = legProblem("Decode transfer", r, "decode_req.req", v.explain(err, lg))
	}
	return h, f
}

// explain returns SGLang's text for an error of a reception.
func (v *kvReceiver) explain(err error, lg *leg) string {
	switch {
	case errors.Is(err, errGone):
		return fmt.Sprintf("Lost connection with prefill instance (bootstrap_addr: %s)", lg.addr)
	case errors.Is(err, errTimeout):
		return fmt.Sprintf("Request %d timed out after %.1fs in KVPoll.WaitingForInput", lg.room, v.cfg.WaitingTimeout.Seconds())
	case lg.ctx.Err() != nil || errors.Is(err, errLookup):
		return byAbort
	}
	return "Failed to reach prefill instance: " + err.Error()
}

var (
	errTimeout = errors.New("sim: no keys and values in time")
	errLookup  = errors.New("sim: bootstrap server does not answer")
)

// lookUp finds the transfer address of the rank of lg's prefill worker.
func (v *kvReceiver) lookUp(p *prefillPeer, lg *leg) (at rankAddress, err error) {
	for range lookups {
		if at, err = p.find(lg.ctx, v.process, lg); err == nil {
			return at, nil
		}
		t := time.NewTimer(v.cfg.real(lookupEvery))
		select {
		case <-t.C:
		case <-p.lost:
			t.Stop()
			return at, errGone
		case <-lg.ctx.Done():
			t.Stop()
			return at, lg.ctx.Err()
		}
	}
	return at, errLookup
}

// pull waits for a leg's keys and values. A broken connection alone is no failure, as in
// SGLang, which recognizes a dead prefill worker by missing heartbeats.
func (v *kvReceiver) pull(p *prefillPeer, r *request, at rankAddress) (h handoff, err error) {
	late := time.NewTimer(v.cfg.real(v.cfg.WaitingTimeout))
	defer late.Stop()
	var d net.Dialer
	c, err := d.DialContext(r.leg.ctx, "tcp", at.addr)
	if err != nil {
		p.forget()
		return h, err
	}
	defer c.Close()
	if err = json.NewEncoder(c).Encode(joining{at.rank, r.leg.room, r.inTree * v.cfg.PageSize}); err != nil {
		p.forget()
		return h, err
	}
	answer := make(chan handoff, 1)
	v.wg.Go(func() {
		var h handoff
		if json.NewDecoder(c).Decode(&h) == nil {
			answer <- h
		}
	})
	select {
	case h = <-answer:
		return h, nil
	case <-late.C:
		err = errTimeout
	case <-p.lost:
		err = errGone
	case <-r.leg.ctx.Done():
		err = r.leg.ctx.Err()
	}
	if v.ctx.Err() == nil { // A killed process sends no abort.
		_ = c.SetWriteDeadline(time.Now().Add(time.Second))
		_ = json.NewEncoder(c).Encode(givingUp{true})
	} else if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	return h, err
}

// admitLegs gives pages to connected legs, first come, first served.
func (l *legScheduler) admitLegs() {
	held := len(l.rank.running)
	for _, r := range l.list {
		if r.leg.state == legReceiving || r.leg.state == legReceived {
			held++
		}
	}
	for _, r := range l.list {
		if r.leg.state != legReady {
			continue
		}
		if held >= l.rank.cfg.decodeLegs() || !l.rank.pool.admit(r) {
			return
		}
		held++
		l.rank.pool.allot(r, len(r.prompt))
		r.leg.state = legReceiving
		close(r.leg.admitted)
	}
}

// received stores the result of a reception.
func (l *legScheduler) received(r *request, h handoff, f finishReason) {
	if f.kind == "" && h.Prompt != len(r.prompt) {
		f = finishReason{kind: "abort", status: 500, message: "Metadata corruption detected - bootstrap_room mismatch"}
	}
	if f.kind != "" {
		l.remove(r)
		l.rank.finish(r, f)
		return
	}
	r.leg.first, r.leg.state = h.First, legReceived
	r.computed = len(r.prompt)
	r.mu.Lock()
	r.cached = h.Cached
	r.mu.Unlock()
}

// runReceived runs legs that have their keys and values. The first token came with them.
func (l *legScheduler) runReceived() {
	now := time.Now()
	for i := 0; i < len(l.list) && len(l.rank.running) < l.rank.cfg.MaxRunning; {
		r := l.list[i]
		if r.leg.state != legReceived {
			i++
			continue
		}
		l.list = slices.Delete(l.list, i, i+1)
		l.rank.pool.store(r, len(r.prompt))
		l.rank.step(r, now)
		if r.reason.kind == "" {
			l.rank.running = append(l.rank.running, r)
		}
		r.signal()
	}
}
