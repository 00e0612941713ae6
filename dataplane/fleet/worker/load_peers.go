package worker

import (
	"sync/atomic"
)

// Share is what one router has in flight at one rank. Routers tell it each other; it is a state and not a change, so that one that is
// lost is made good by the next.
type RouterLoad struct {
	InFlight int64 // requests dispatched and not ended
	Waiting  int64 // of those, the ones without a first byte
	Pending  int64 // prompt tokens that those are expected to compute
	Used     int64 // tokens of the KV pool that all of InFlight are expected to add
	Held     int64 // the most KV tokens that all of InFlight can hold
	Sent     int64 // tokens that ever were in Pending: what was sent and has begun between two shares was still sent
}

// Idle reports whether nothing is in flight.
func (s RouterLoad) Idle() bool {
	return s.InFlight == 0 && s.Waiting == 0 && s.Pending == 0 && s.Used == 0 && s.Held == 0
}

// Plus returns the sum of two.
func (s RouterLoad) Plus(o RouterLoad) RouterLoad {
	return RouterLoad{
		InFlight: s.InFlight + o.InFlight, Waiting: s.Waiting + o.Waiting, Pending: s.Pending + o.Pending, Used: s.Used + o.Used,
		Held: s.Held + o.Held, Sent: s.Sent + o.Sent,
	}
}

// foreign is the sum of other routers' shares. It is written under Load.mu, between shown.begin and end.
type peerLoads struct{ inFlight, waiting, pending, used, held, sent atomic.Int64 }
