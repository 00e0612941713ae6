package ingress

import (
	"cmp"
	"math"
	"net"
	"syscall"
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

// A request that has begun holds a buffer and a goroutine, and its body memory, until it is there.
// It gets Limits.Arrival for that, and a second more for each Limits.Rate bytes that have come.
// Without a rate, a body of 64 MiB at 1 KiB a second would hold its memory for 18 hours.

// readLimit is when reading a connection ends: for the next request at a set time, for the rest
// of one that has begun by how much of it has come.
type readLimit struct {
	until time.Time     // of the wait for the next request
	idle  time.Duration // of that wait
	grace time.Duration // of a request
	rate  int           // bytes of it that make a second more
	since time.Time     // first wait for the rest of a request; zero: there was none
	got   int64         // bytes from then on
	late  bool          // too little of the request has come

	armed time.Time // the deadline that the poller has; zero: none that is to come
}

// wait begins the wait for the next request.
func (l *readLimit) wait(until time.Time) {
	l.until, l.since, l.got, l.late = until, time.Time{}, 0, false
}

// arrive begins the wait for the rest of a request, unless it has begun.
func (l *readLimit) arrive() {
	if l.since.IsZero() {
		l.since = time.Now()
	}
}

// due is when the wait ends.
func (l *readLimit) due() time.Time {
	if l.since.IsZero() {
		return l.until
	}
	return l.since.Add(l.grace + time.Duration(l.got)*time.Second/time.Duration(l.rate))
}

// arm has the poller end a read of nc in time. Telling the poller costs more than the rest of a
// small read: a deadline that is too early stays, and expired moves it when a read has met it.
func (l *readLimit) arm(nc net.Conn) error {
	due := l.due()
	if !l.armed.IsZero() && !due.Before(l.armed) {
		return nil
	}
	l.armed = due
	return nc.SetReadDeadline(due)
}

// expired reports, after a read has met the poller's deadline, whether the wait is over.
func (l *readLimit) expired() bool {
	l.armed = time.Time{}
	if time.Now().Before(l.due()) {
		return false
	}
	l.late = !l.since.IsZero()
	return true
}

// FileShares returns the number of client connections for which the limit of open files leaves
// room, 0 for any number, and how many beyond it are kept for requests that must be answered then.
func FileShares() (clients, reserve int) { return sharesOf(fileLimit()) }

// maxReserve is enough for the health checks of a load balancer and for operators.
const maxReserve = 64

// sharesOf returns the shares where so many files may be open. Each client may need two connections
// to workers at the same time, those to a pair. Probes of workers and their events must go on
// besides: without them the index would forget all caches.
func sharesOf(files int) (clients, reserve int) {
	if files == 0 {
		return 0, maxReserve
	}
	others := max(files/8, min(64, files/2))
	return (files - others) / 3, min(max(others/8, 2), maxReserve)
}

// fileLimit returns the number of files that this process may have open, 0 for any number.
func fileLimit() int {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil || limit.Cur > math.MaxInt32 {
		return 0
	}
	return int(limit.Cur)
}
