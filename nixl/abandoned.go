package nixl

import (
	"slices"
	"time"

	"github.com/warmpath/warmpath/cgo"
)

// abandonedTransfers have ended for their callers while the library may still move their bytes:
// it cannot stop a request, and releasing one in progress only forgets it. A transfer leaves
// the list when all its requests have ended well, or when the engine was destroyed.
type abandonedTransfers struct {
	executor *executor
	list     []*abandonedTransfer
	polled   time.Time
}

type abandonedTransfer struct {
	*Transfer
	since time.Time
	dead  bool // it will not end by itself
}

func (x *abandonedTransfers) empty() bool { return len(x.list) == 0 }

func (x *abandonedTransfers) bytes() (n uint64) {
	for _, t := range x.list {
		n += t.bytes
	}
	return n
}

func (x *abandonedTransfers) add(t *Transfer, dead bool) {
	x.list = append(x.list, &abandonedTransfer{t, time.Now(), dead})
	x.executor.agent.counters.abandon(t)
}

// failPeer notes that transfers with a peer will not end by themselves.
func (x *abandonedTransfers) failPeer(r *Remote) {
	for _, t := range x.list {
		if t.remote == r {
			t.dead = true
		}
	}
}

func (x *abandonedTransfers) hasPeer(r *Remote) bool {
	return slices.ContainsFunc(x.list, func(t *abandonedTransfer) bool { return t.remote == r })
}

// needReplacement reports whether only the end of the engine settles one of the transfers.
func (x *abandonedTransfers) needReplacement(now time.Time) bool {
	limit := x.executor.agent.cfg.AbandonTimeout
	return slices.ContainsFunc(x.list, func(t *abandonedTransfer) bool { return t.dead || now.Sub(t.since) > limit })
}

// poll asks for the transfers' statuses, at most every abandonedPoll.
func (x *abandonedTransfers) poll() {
	if x.empty() || time.Since(x.polled) < abandonedPoll {
		return
	}
	x.polled = time.Now()
	x.list = slices.DeleteFunc(x.list, func(t *abandonedTransfer) bool {
		if !x.hasEnded(t) {
			return false
		}
		x.settle(t)
		return true
	})
}

// hasEnded reports whether all requests of a transfer have ended well.
func (x *abandonedTransfers) hasEnded(t *abandonedTransfer) bool {
	if t.remote.Err() != nil {
		t.dead = true
	}
	if t.dead {
		return false
	}
	e := x.executor
	var status [1]int32
	t.outstanding = slices.DeleteFunc(t.outstanding, func(q *libraryRequest) bool {
		e.engine.Wait([]Request{q.request}, status[:], 0, &e.wake)
		switch s := cgo.StatusError(status[0]); s {
		case cgo.ErrInProgress:
			return false
		case 0:
			_ = e.engine.Release(q.request) // a failure leaks a few bytes of the library's
			return true
		default:
			t.dead = true
			return false
		}
	})
	return len(t.outstanding) == 0
}

func (x *abandonedTransfers) settle(t *abandonedTransfer) {
	a := x.executor.agent
	a.counters.settle(t.Transfer)
	t.settle()
	a.releaseMemory(t.local)
}

// release gives the library's requests back, which must precede the end of their engine.
func (x *abandonedTransfers) release() {
	for _, t := range x.list {
		for _, q := range t.outstanding {
			_ = x.executor.engine.Release(q.request) // the engine is destroyed next in any case
		}
	}
}

// settleAll follows the end of the engine.
func (x *abandonedTransfers) settleAll() {
	for _, t := range x.list {
		x.settle(t)
	}
	x.list = nil
}
