package sim

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"
)

// SGLang asks a bootstrap server that does not answer this often, a second apart.
const (
	lookups     = 15
	lookupEvery = time.Second
)

// errGone means that the prefill worker of a leg is dead.
var errGone = errors.New("sim: prefill worker gone")

// kvReceiver brings keys and values to the legs of a decode worker.
type kvReceiver struct {
	*process
	peers *prefillPeers
}

// receive brings r's keys and values to its rank, in the background.
func (v *kvReceiver) receive(r *request) {
	lg := r.leg
	lg.ctx, lg.cancel = context.WithCancel(v.ctx)
	lg.admitted = make(chan struct{})
	v.wg.Go(func() {
		defer lg.cancel()
		p := v.peers.enter(lg.addr)
		defer v.peers.exit(p)
		h, f := v.reception(p, r)
		if v.faults.pass(v.ctx) {
			r.home.do(func() { r.home.legs.land(r, h, f) })
		}
	})
}

// reception is the life of a decode leg outside its rank: look-up, wait for pages,
// transfer. A finish with a kind says how it failed.
func (v *kvReceiver) reception(p *prefillPeer, r *request) (h handoff, f finish) {
	lg := r.leg
	at, err := v.lookUp(p, lg)
	if err != nil {
		return h, legProblem("Decode handshake", r, "decode_req.req", v.why(err, lg))
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
		f = legProblem("Decode transfer", r, "decode_req.req", v.why(err, lg))
	}
	return h, f
}

// why words an error of a reception.
func (v *kvReceiver) why(err error, lg *leg) string {
	switch {
	case errors.Is(err, errGone):
		return fmt.Sprintf("Lost connection with prefill instance (bootstrap_addr: %s)", lg.addr)
	case errors.Is(err, errLate):
		return fmt.Sprintf("Request %d timed out after %.1fs in KVPoll.WaitingForInput", lg.room, v.cfg.WaitingTimeout.Seconds())
	case lg.ctx.Err() != nil || errors.Is(err, errLookup):
		return byAbort
	}
	return "Failed to reach prefill instance: " + err.Error()
}

var (
	errLate   = errors.New("sim: no keys and values in time")
	errLookup = errors.New("sim: bootstrap server does not answer")
)

// lookUp finds where the rank of lg's prefill worker hands over.
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

// pull waits for a leg's keys and values. That the connection breaks says nothing, as
// in SGLang: a dead prefill worker is known by its missing heartbeats.
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
	if _, err = c.Write(appendJoin(nil, roomKey{at.rank, r.leg.room}, r.inTree*v.cfg.PageSize)); err != nil {
		p.forget()
		return h, err
	}
	answer := make(chan handoff, 1)
	v.wg.Go(func() {
		line, err := readLine(bufio.NewReaderSize(c, maxLine))
		if h, bad := parseHandoff(line); err == nil && bad == nil {
			answer <- h
		}
	})
	select {
	case h = <-answer:
		return h, nil
	case <-late.C:
		err = errLate
	case <-p.lost:
		err = errGone
	case <-r.leg.ctx.Done():
		err = r.leg.ctx.Err()
	}
	if v.ctx.Err() == nil { // a process that was killed says nothing
		_ = c.SetWriteDeadline(time.Now().Add(time.Second))
		_, _ = c.Write([]byte("abort\n"))
	} else if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	return h, err
}

// reserve gives pages to the legs that have met, first come, first served.
func (l *legScheduler) reserve() {
	held := len(l.rank.running)
	for _, r := range l.list {
		if r.leg.state == legReceiving || r.leg.state == legLanded {
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

// land takes in what a reception brought.
func (l *legScheduler) land(r *request, h handoff, f finish) {
	if f.kind == "" && h.prompt != len(r.prompt) {
		f = finish{kind: "abort", status: 500, message: "Metadata corruption detected - bootstrap_room mismatch"}
	}
	if f.kind != "" {
		l.drop(r)
		l.rank.finish(r, f)
		return
	}
	r.leg.first, r.leg.state = h.first, legLanded
	r.computed = len(r.prompt)
	r.mu.Lock()
	r.cached = h.cached
	r.mu.Unlock()
}

// enlist lets legs run whose keys and values have landed. The first token is there
// already.
func (l *legScheduler) enlist() {
	now := time.Now()
	for i := 0; i < len(l.list) && len(l.rank.running) < l.rank.cfg.MaxRunning; {
		r := l.list[i]
		if r.leg.state != legLanded {
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
