package queue

import "time"

// result is the result of Enter for a waiter that was told its outcome.
func (g *Gate) result(permit Permit, w *Waiter, waited time.Duration) (Permit, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.resultLocked(permit, w, waited)
}

func (g *Gate) resultLocked(permit Permit, w *Waiter, waited time.Duration) (Permit, error) {
	switch w.out {
	case admitted:
		permit.rank, permit.popped, permit.Waited = w.rank, w.rank != nil, waited
		g.finished.Passed++
		g.finished.Waited += waited
		return permit, nil
	case leftDisplaced:
		g.finished.RefusedDisplaced++
		return Permit{}, permit.queue.refusal(ReasonDisplaced, g.now())
	case leftPredicted:
		g.finished.RefusedPredicted++
		return Permit{}, permit.queue.refusal(ReasonPredicted, g.now())
	case leftLate:
		g.finished.RefusedLate++
		return Permit{}, permit.queue.refusal(ReasonDeadline, g.now())
	case leftGone:
		g.finished.Gone++
		return Permit{}, ErrGone
	default:
		return Permit{}, ErrClosed
	}
}

// leave ends a wait for reason why, unless the waiter was told an outcome just now.
func (g *Gate) leave(permit Permit, w *Waiter, why outcome, waited time.Duration) (Permit, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case w.out == waiting:
		g.leaveLocked(permit.queue, w, why)
		w.out = why
	case w.out == admitted && why == leftGone: // its permit goes to the next request
		permit.rank = w.rank
		permit.releaseLocked()
		w.out = leftGone
	}
	return g.resultLocked(permit, w, waited)
}

// leaveLocked takes out a request that does not wait for its turn any longer.
func (g *Gate) leaveLocked(q *modelQueue, w *Waiter, why outcome) {
	now := g.now()
	if why == leftLate && !q.drain.known(q.held) && q.stands(now, g.cfg.Timeout) {
		q.newestFirst(now) // with an unknown rate, no other sign of a lasting overload
	}
	q.order.Remove(w)
	g.leftLocked(q, now)
}

// Refuse counts a request that no rank can answer before its deadline, even if it is sent now.
func (g *Gate) Refuse(model string) *RefusedError {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.finished.RefusedPredicted++
	if q := g.models[model]; q != nil {
		return q.refusal(ReasonPredicted, g.now())
	}
	return &RefusedError{Reason: ReasonPredicted, RetryAfter: time.Second}
}

// Permit is the right to send one request. The zero value needs no release.
type Permit struct {
	Waited time.Duration // in the queue

	gate   *Gate
	queue  *modelQueue
	rank   any  // key of the rank with reserved room; nil: none
	popped bool // the order has noted the request for that rank
	branch Branch
}

// Rank returns the key of the rank with room for the request; nil: any.
func (p *Permit) Rank() any { return p.rank }

// Dispatched notes that the request now counts as load of the rank of that key.
func (p *Permit) Dispatched(key any) {
	if p.gate == nil {
		return
	}
	p.gate.mu.Lock()
	defer p.gate.mu.Unlock()
	if !p.popped || key != p.rank {
		p.queue.order.Sent(key, p.branch)
	}
	p.releaseLocked()
	*p = Permit{}
}

// Release gives an unused permit back; after Dispatched it has no effect.
func (p *Permit) Release() {
	if p.gate == nil {
		return
	}
	p.gate.mu.Lock()
	defer p.gate.mu.Unlock()
	p.releaseLocked()
	*p = Permit{}
}

// releaseLocked ends the reservation and gives the room to the next request.
func (p *Permit) releaseLocked() {
	if p.rank == nil {
		return
	}
	if p.queue.reserved[p.rank]--; p.queue.reserved[p.rank] <= 0 {
		delete(p.queue.reserved, p.rank)
	}
	p.rank = nil
	p.gate.admitLocked(p.queue)
}
