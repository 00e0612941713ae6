package worker

import (
	"sync/atomic"
)

// RouterLoad is the load of one router at one rank. Routers send it to each other as a state and
// not as a change, so that a lost message is made good by the next.
type RouterLoad struct {
	InFlight int64 // requests dispatched and not ended
	Waiting  int64 // requests without a first byte
	Pending  int64 // prompt tokens that the rank must compute for Waiting
	Used     int64 // tokens of the KV pool that all of InFlight are expected to add
	Held     int64 // the most KV tokens that all of InFlight can hold
	// All tokens that were ever in Pending, also of requests that began between two messages.
	Sent int64
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

// peerLoads is the sum of the other routers' loads. It is written under Load.mu, between
// published.begin and end.
type peerLoads struct{ inFlight, waiting, pending, used, held, sent atomic.Int64 }
