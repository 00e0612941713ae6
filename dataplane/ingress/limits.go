package ingress

import (
	"cmp"
	"time"
)

// Limits bound what clients may take of a Server. Zero fields take the defaults.
type Limits struct {
	// Clients bounds open connections; default as many as the limit of open files leaves room for,
	// which no greater number exceeds.
	Clients int
	// PerAddress bounds the connections of one address, or of one network of 64 bits of IPv6. 0:
	// any number, since all clients behind a load balancer or a NAT have one address.
	PerAddress int
	// Idle is the longest wait for the next request on a connection. The default is longer than
	// load balancers keep idle connections (60 s to 10 min): a request that meets the end of its
	// connection is lost to most of them.
	Idle time.Duration
	// Arrival is the time for a request to arrive; default 30 s.
	Arrival time.Duration
	// Rate is the bytes of a request that give it a second more; default 16 KiB, which a phone on
	// a bad line sends. A client must take an answer that the router holds as a whole, which is no
	// stream and larger than 64 KiB, within Arrival and Rate, too.
	Rate int
	// Stall is how long a client may take nothing of its answer; default 1 min.
	Stall time.Duration
}

const (
	defaultIdle    = 15 * time.Minute
	defaultArrival = 30 * time.Second
	defaultRate    = 16 << 10
	defaultStall   = time.Minute
	// silentTime is how long a connection may be open before its first byte.
	silentTime = 5 * time.Minute
)

// Operators returns the limits for a listener of operators, who share no limits of numbers with
// clients.
func (l Limits) Operators() Limits {
	l.Clients, l.PerAddress = 0, 0
	return l
}

// withDefaults fills in zero fields.
func (l Limits) withDefaults() Limits {
	l.Idle, l.Arrival = cmp.Or(l.Idle, defaultIdle), cmp.Or(l.Arrival, defaultArrival)
	l.Rate, l.Stall = cmp.Or(l.Rate, defaultRate), cmp.Or(l.Stall, defaultStall)
	return l
}

// A Reason says why the router closed a connection that its client had not.
type Reason string

// Reasons for Config.Closed.
const (
	ReasonStalled Reason = "stalled"     // the client took nothing of its answer, or too little
	ReasonSlow    Reason = "slow"        // a request did not arrive in time
	ReasonIdle    Reason = "idle"        // no next request came
	ReasonSilent  Reason = "silent"      // no first request came
	ReasonRoom    Reason = "room"        // it waited for a request, and another needed its place
	ReasonFull    Reason = "full"        // none waited, and its request was not for the reserve
	ReasonAddress Reason = "per_address" // its address had too many
)

// Reasons returns all of them.
func Reasons() []Reason {
	return []Reason{ReasonStalled, ReasonSlow, ReasonIdle, ReasonSilent, ReasonRoom, ReasonFull, ReasonAddress}
}
