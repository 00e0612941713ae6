package ingress

import (
	"net"
	"time"
)

// A request that has begun holds a buffer and a goroutine until it is there. It gets
// defaultGrace for that, and a second more for each KiB that has come: clients on bad lines are
// faster than that, and slower ones mean harm or are gone.
const (
	defaultGrace = 30 * time.Second
	arrivalRate  = 1 << 10 // bytes a second
	defaultIdle  = 5 * time.Minute
	// silentTime is how long a connection may be open before its first byte.
	silentTime = 5 * time.Minute
)

// readLimit is when reading a connection ends: for the next request at a set time, for the rest
// of one that has begun by how much of it has come.
type readLimit struct {
	until time.Time     // of the wait for the next request
	grace time.Duration // of a request
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
	return l.since.Add(l.grace + time.Duration(l.got)*time.Second/arrivalRate)
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
