package ingress

import (
	"net"
	"time"
)

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
