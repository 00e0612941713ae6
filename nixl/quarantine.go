package nixl

import (
	"slices"
	"time"

	"github.com/warmpath/warmpath/cgo"
)

// quarantine holds transfers that have ended for their callers while the library may still move their bytes: it has no way to stop a request, and releasing one
// that is under way only forgets it. A transfer leaves when all its requests have ended well, or when the engine was destroyed.
type quarantine struct {
	list   []*inmate
	looked time.Time
}

// inmate is a transfer in quarantine.
type inmate struct {
	transfer *Transfer
	since    time.Time
	dead     bool // it will not end by itself
}

func (q *quarantine) empty() bool { return len(q.list) == 0 }

func (q *quarantine) bytes() (n uint64) {
	for _, i := range q.list {
		n += i.transfer.bytes
	}
	return n
}

func (q *quarantine) add(a *Agent, t *Transfer, dead bool) {
	q.list = append(q.list, &inmate{t, time.Now(), dead})
	a.counters.quarantined.Add(1)
	a.counters.inQuarantine.Add(1)
	a.counters.bytesInQuarantine.Add(int64(t.bytes))
}

// peerIsDead notes that transfers with a peer will not end by themselves.
func (q *quarantine) peerIsDead(r *Remote) {
	for _, i := range q.list {
		if i.transfer.remote == r {
			i.dead = true
		}
	}
}

// holds reports whether a transfer with the peer is here.
func (q *quarantine) holds(r *Remote) bool {
	return slices.ContainsFunc(q.list, func(i *inmate) bool { return i.transfer.remote == r })
}

// needsEnd reports whether a transfer is here that only the end of the engine settles.
func (q *quarantine) needsEnd(now time.Time, age time.Duration) bool {
	return slices.ContainsFunc(q.list, func(i *inmate) bool { return i.dead || now.Sub(i.since) > age })
}

// look asks for the transfers' statuses, now and then.
func (q *quarantine) look(o *owner) {
	if q.empty() || time.Since(q.looked) < idleTick {
		return
	}
	q.looked = time.Now()
	q.list = slices.DeleteFunc(q.list, func(i *inmate) bool {
		if !i.look(o) {
			return false
		}
		q.discharge(o, i.transfer)
		return true
	})
}

// look reports whether all requests of a transfer have ended well.
func (i *inmate) look(o *owner) bool {
	t := i.transfer
	if t.remote.Err() != nil {
		i.dead = true
	}
	if i.dead {
		return false
	}
	var status [1]int32
	t.flying = slices.DeleteFunc(t.flying, func(f *flight) bool {
		o.engine.wait([]request{f.request}, status[:], 0, &o.wake)
		switch s := cgo.StatusError(status[0]); s {
		case cgo.ErrInProgress:
			return false
		case 0:
			_ = o.engine.release(f.request) // its bytes have moved; what stays is a few bytes of the library's
			return true
		default:
			i.dead = true
			return false
		}
	})
	return len(t.flying) == 0
}

func (q *quarantine) discharge(o *owner, t *Transfer) {
	o.agent.counters.inQuarantine.Add(-1)
	o.agent.counters.bytesInQuarantine.Add(-int64(t.bytes))
	t.settle()
	o.agent.unuse(t.local)
}

// releaseRequests gives the library's requests back, which must be before their engine is destroyed.
func (q *quarantine) releaseRequests(e engine) {
	for _, i := range q.list {
		for _, f := range i.transfer.flying {
			_ = e.release(f.request) // the engine goes next, whatever is said here
		}
	}
}

// settleAll is called when the engine is gone.
func (q *quarantine) settleAll(o *owner) {
	for _, i := range q.list {
		q.discharge(o, i.transfer)
	}
	q.list = nil
}
