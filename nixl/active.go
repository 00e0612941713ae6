package nixl

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/warmpath/warmpath/cgo"
)

// activeTransfers are an executor's transfers that have started and not ended.
type activeTransfers struct {
	executor *executor
	list     []*Transfer

	// Reused by poll.
	outstanding []*libraryRequest
	requests    []Request
	statuses    []int32
}

// libraryRequest is a part of a transfer that the library works on.
type libraryRequest struct {
	transfer *Transfer
	request  Request
}

func (x *activeTransfers) empty() bool { return len(x.list) == 0 }

// start takes a transfer on.
func (x *activeTransfers) start(t *Transfer) {
	e := x.executor
	t.executor.Store(e)
	e.agent.counters.add(func(s *Stats) { s.Posted++ })
	err := e.agent.memories.retain(t.local)
	if err == nil {
		t.retained = true
		err = e.ensureLoaded(t.remote)
	}
	if reason := t.givenUp.Load(); err == nil && reason != nil {
		err = *reason
	}
	if err != nil {
		x.fail(t, err, false)
		return
	}
	t.deadline = time.Now().Add(e.agent.cfg.Timeout)
	x.list = append(x.list, t)
}

// work posts due requests, waits for the library and ends transfers that have failed.
func (x *activeTransfers) work() {
	more := false
	for _, t := range slices.Clone(x.list) {
		if !t.isDone() { // a failure ends the other transfers with its peer
			more = x.postNext(t) || more
		}
	}
	if x.empty() {
		return
	}
	timeout := busyWait
	if more {
		timeout = 0
	}
	x.poll(timeout)
	x.expire()
}

// postNext posts a transfer's next request if there is one and Depth allows it. It reports
// whether another can be posted at once.
func (x *activeTransfers) postNext(t *Transfer) bool {
	e := x.executor
	if t.next == len(t.chunks) || len(t.outstanding) >= e.agent.cfg.Depth {
		return false
	}
	c := &t.chunks[t.next]
	begin := time.Now()
	r, err := e.engine.Create(t.op, t.remote.name, c.local, c.remote)
	prepared := time.Now()
	t.times.Prepare += prepared.Sub(begin)
	if err != nil { // the offsets are good, so the library has lost the peer or its memory
		t.remote.markFailed(fmt.Errorf("cannot prepare: %w", err))
		e.dropRemote(t.remote)
		return false
	}
	if t.began.IsZero() {
		t.began = prepared
	}
	t.next++
	t.times.Requests++
	t.times.Pieces += len(c.local)
	q := &libraryRequest{transfer: t, request: r}
	t.outstanding = append(t.outstanding, q)
	err = e.engine.Post(r)
	t.times.Post += time.Since(prepared)
	if statusOf(err) == cgo.ErrInProgress {
		return true
	}
	x.ended(q, statusOf(err))
	return t.next < len(t.chunks)
}

// poll waits until a request has ended and records all that have.
func (x *activeTransfers) poll(timeout time.Duration) {
	x.outstanding, x.requests = x.outstanding[:0], x.requests[:0]
	for _, t := range x.list {
		for _, q := range t.outstanding {
			x.outstanding, x.requests = append(x.outstanding, q), append(x.requests, q.request)
		}
	}
	if len(x.requests) == 0 {
		return
	}
	x.statuses = slices.Grow(x.statuses[:0], len(x.requests))[:len(x.requests)]
	x.executor.engine.Wait(x.requests, x.statuses, timeout, &x.executor.wake)
	for i, q := range x.outstanding {
		if s := cgo.StatusError(x.statuses[i]); s != cgo.ErrInProgress && !q.transfer.isDone() {
			x.ended(q, s)
		}
	}
}

// ended records a request that is no longer in progress.
func (x *activeTransfers) ended(q *libraryRequest, status cgo.StatusError) {
	t, a := q.transfer, x.executor.agent
	if status != 0 {
		// The connection is of no use after a refusal, and requests posted before may still
		// move bytes.
		t.remote.markFailed(status)
		x.executor.dropRemote(t.remote)
		return
	}
	t.outstanding = slices.DeleteFunc(t.outstanding, func(other *libraryRequest) bool { return other == q })
	if err := x.executor.engine.Release(q.request); err != nil {
		a.cfg.Log.Warn("cannot release a finished NIXL request", "error", err)
	}
	if t.next < len(t.chunks) || len(t.outstanding) > 0 {
		return
	}
	t.times.Transfer = time.Since(t.began)
	x.remove(t)
	a.counters.complete(t)
	t.settle()
	close(t.done)
	a.releaseMemory(t.local)
}

// expire ends transfers that were canceled, that take too long, or whose peer is dead.
func (x *activeTransfers) expire() {
	now := time.Now()
	for _, t := range slices.Clone(x.list) {
		switch reason := t.givenUp.Load(); {
		case t.remote.Err() != nil:
			x.fail(t, t.remote.Err(), true)
		case reason != nil:
			x.fail(t, *reason, false)
		case now.After(t.deadline):
			x.fail(t, fmt.Errorf("%w after %v", ErrTimeout, x.executor.agent.cfg.Timeout), false)
		}
	}
}

// fail ends a transfer with an error. Its outstanding requests make it an abandoned transfer;
// dead tells that they will not end by themselves.
func (x *activeTransfers) fail(t *Transfer, reason error, dead bool) {
	if t.isDone() {
		return
	}
	a := x.executor.agent
	t.err = reason
	x.remove(t)
	a.counters.fail(reason)
	if len(t.outstanding) > 0 {
		x.executor.abandoned.add(t, dead)
		close(t.done)
		return
	}
	t.settle()
	close(t.done)
	if t.retained {
		a.releaseMemory(t.local)
	}
}

// failPeer ends all transfers with a failed peer.
func (x *activeTransfers) failPeer(r *Remote) {
	for _, t := range slices.Clone(x.list) {
		if t.remote == r {
			x.fail(t, r.Err(), true)
		}
	}
}

func (x *activeTransfers) failAll(reason error) {
	for _, t := range slices.Clone(x.list) {
		x.fail(t, reason, true)
	}
}

func (x *activeTransfers) remove(t *Transfer) {
	x.list = slices.DeleteFunc(x.list, func(other *Transfer) bool { return other == t })
}

// statusOf is the status in a call's error: 0 for none.
func statusOf(err error) cgo.StatusError {
	if err == nil {
		return 0
	}
	if status, ok := errors.AsType[cgo.StatusError](err); ok {
		return status
	}
	return cgo.ErrBackend
}
