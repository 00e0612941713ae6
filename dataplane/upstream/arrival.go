package upstream

import (
	"io"
	"time"
)

// A request that has begun holds a buffer and a goroutine until it is there. It has DefaultGrace for that, and a second more for each KiB that
// has come: slower than that is no client on a bad line, but one that means harm, or that has gone without a word.
const (
	DefaultGrace = 30 * time.Second
	arrivalRate  = 1 << 10 // bytes a second
	// silentTime is how long a connection may be open before its first byte; between two requests, fasthttp has a limit of its own.
	silentTime = 5 * time.Minute
)

// arrival is how the request that is being read comes in. Requests that come in one piece do not touch it.
type arrival struct {
	since time.Time // when the rest was first waited for; zero: there is no limit
	grace time.Duration
	got   int64 // bytes from then on
	late  bool  // the limit has passed
}

// expects begins a wait: for the next request, or for more of the one that is being read. It sees to it that the wait ends.
func (cl *Client) expects(next bool) {
	a := &cl.arrival
	switch {
	case next && cl.silent.Load():
		*a = arrival{since: time.Now(), grace: silentTime}
	case next:
		a.since = time.Time{}
		return
	case a.since.IsZero() || a.grace == silentTime:
		*a = arrival{since: time.Now(), grace: cl.w.grace()}
	default:
		return // the poller knows an earlier limit, and Read one that has moved
	}
	if limit := a.limit(); cl.armed.IsZero() || limit.Before(cl.armed) {
		_ = cl.arm(limit) // of a connection that is closed: the read says so
	}
}

// limit is when what has come is too little.
func (a *arrival) limit() time.Time {
	return a.since.Add(a.grace + time.Duration(a.got)*time.Second/arrivalRate)
}

// due is when the wait ends: by the limit, or by the deadline that was asked for. Zero is never.
func (cl *Client) due() time.Time {
	if cl.arrival.since.IsZero() {
		return cl.want
	}
	if limit := cl.arrival.limit(); cl.want.IsZero() || limit.Before(cl.want) {
		return limit
	}
	return cl.want
}

// late is the error of a wait that has ended: a client that never said anything is closed without a word.
func (cl *Client) late(err error) error {
	if cl.silent.Load() && cl.arrival.grace == silentTime {
		return io.EOF
	}
	cl.arrival.late = !cl.arrival.since.IsZero() && !time.Now().Before(cl.arrival.limit())
	return err
}

// Late reports whether the last request was given up because too little of it came. It is for the goroutine that serves the connection.
func (cl *Client) Late() bool { return cl != nil && cl.arrival.late }

// Grace sets how long a request may take that sends next to nothing: DefaultGrace if it is never called. It must come before Listen.
func (w *Watcher) Grace(d time.Duration) { w.slow = d }

func (w *Watcher) grace() time.Duration {
	if w.slow > 0 {
		return w.slow
	}
	return DefaultGrace
}
