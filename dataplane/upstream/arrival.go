package upstream

import "time"

// A request that has begun holds a buffer and a goroutine until it is there. It has DefaultGrace for that, and a second more for each KiB that
// has come: no client on a bad line is slower, only one that means harm, or that has gone without a word.
const (
	DefaultGrace = 30 * time.Second
	arrivalRate  = 1 << 10 // bytes a second
	// silentTime is how long a connection may be open before its first byte.
	silentTime = 5 * time.Minute
)

// arrival is how the request that is being read comes in. Requests that come in one piece do not touch it.
type arrival struct {
	since time.Time // when the rest was first waited for; zero: there is no limit
	grace time.Duration
	got   int64 // bytes from then on
	late  bool  // the limit has passed
}

// expect begins a wait for more of the request that is being read.
func (cl *Client) expect() {
	if cl.arrival.since.IsZero() {
		cl.arrival = arrival{since: time.Now(), grace: cl.s.cfg.Watcher.grace()}
	}
}

// limit is when what has come is too little.
func (a *arrival) limit() time.Time {
	return a.since.Add(a.grace + time.Duration(a.got)*time.Second/arrivalRate)
}

// due is when the wait ends: for the rest of a request by its limit, for the next one by the time asked for. Zero is never.
func (cl *Client) due() time.Time {
	if cl.arrival.since.IsZero() {
		return cl.want
	}
	return cl.arrival.limit()
}

// Late reports whether the last request was given up because too little of it came. It is for the goroutine that serves the connection.
func (cl *Client) Late() bool { return cl != nil && cl.arrival.late }

// Grace sets how long a request may take that sends next to nothing: DefaultGrace if it is never called. It must come before Serve.
func (w *Watcher) Grace(d time.Duration) { w.slow = d }

func (w *Watcher) grace() time.Duration {
	if w.slow > 0 {
		return w.slow
	}
	return DefaultGrace
}
