package worker

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Worker is one SGLang server.
type Worker struct {
	// What every choice reads of every worker comes first, so that it lies in one cache line.
	state   atomic.Uint32 // what the probes say; see State
	drains  atomic.Uint32 // set of DrainReason
	verdict atomic.Uint64 // what GPUs mean for choices; see Verdict
	info    atomic.Pointer[Info]
	// Breaker keeps requests away while they fail, whatever the probes say.
	Breaker Breaker
	// Refusals says which errors of the worker others are asked about.
	Refusals Refusals

	URL  string      // "http://host:port", as given, without a trailing slash
	Addr string      // host:port to dial
	TLS  *tls.Config // nil for plain HTTP

	spec atomic.Pointer[Spec]
	host string // of the URL
	node uint32

	respec    atomic.Bool // the spec is news to the monitor
	suspicion suspicion
	health    healthFacts
	place     atomic.Uint32 // see SetPlace
	since     atomic.Int64  // unix nanoseconds of the last change of state
	alive     atomic.Int64  // unix nanoseconds of the last probe that was answered
	lastErr   atomic.Pointer[string]
	ranks     atomic.Pointer[[]*Rank]
	kick      chan struct{} // capacity 1: probe now

	mu      sync.Mutex
	nextKey uint64
	unbegun map[uint64]func(dead bool) bool // guarded by mu; of requests without a first byte
}

// splitURL checks a worker's URL; port is the one to dial.
func splitURL(raw string) (u *url.URL, port string, err error) {
	u, err = url.Parse(strings.TrimRight(raw, "/"))
	if err != nil {
		return nil, "", fmt.Errorf("cannot use worker %q: %w: %w", raw, ErrBadURL, err)
	}
	if (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" {
		return nil, "", fmt.Errorf("cannot use worker %q: %w: want http://host:port", raw, ErrBadURL)
	}
	if u.Path != "" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || u.User != nil {
		return nil, "", fmt.Errorf("cannot use worker %q: %w: a path, query, fragment or user is not supported", raw, ErrBadURL)
	}
	port = u.Port()
	if n, err := strconv.ParseUint(port, 10, 16); strings.HasSuffix(u.Host, ":") || (port != "" && (err != nil || n == 0)) {
		return nil, "", fmt.Errorf("cannot use worker %q: %w: want a port from 1 to 65535", raw, ErrBadURL)
	}
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return u, port, nil
}

// newWorker makes a worker of a spec; settings makes the TLS settings of one with https.
func newWorker(spec Spec, settings func(host string) *tls.Config) (*Worker, error) {
	spec, err := spec.Normal()
	if err != nil {
		return nil, err
	}
	u, port, err := splitURL(spec.URL)
	if err != nil {
		return nil, err
	}
	w := &Worker{
		URL: spec.URL, host: u.Hostname(), kick: make(chan struct{}, 1), unbegun: make(map[uint64]func(bool) bool),
		health: healthFacts{peers: &peers{}},
	}
	w.spec.Store(&spec)
	w.DrainFor(DrainSource, spec.Drain)
	if u.Scheme == "https" {
		w.TLS = settings(u.Hostname())
	}
	w.Addr = net.JoinHostPort(u.Hostname(), port)
	ranks := newRanks(w, 1)
	w.ranks.Store(&ranks)
	w.since.Store(time.Now().UnixNano())
	return w, nil
}

// State returns what the worker may be used for now.
func (w *Worker) State() State {
	s := State(w.state.Load())
	if s != Dead && w.drains.Load() != 0 {
		return Draining
	}
	return s
}

// Since returns when the probed state last changed.
func (w *Worker) Since() time.Time { return time.Unix(0, w.since.Load()) }

// Alive returns when the last probe was answered. A SGLang engine whose scheduler has died answers none from then on, and
// keeps its connections open for 5 to 65 s.
func (w *Worker) Alive() time.Time { return time.Unix(0, w.alive.Load()) }

// LastError returns the words of the last failed probe, or "".
func (w *Worker) LastError() string {
	if p := w.lastErr.Load(); p != nil {
		return *p
	}
	return ""
}

// Node numbers the host that the worker is on: workers with one number share
// it. Numbers are small, and those of hosts without a worker are used again.
func (w *Worker) Node() uint32 { return w.node }

// Info returns what the worker said of itself, or nil before its first answer.
func (w *Worker) Info() *Info { return w.info.Load() }

// Ranks returns the worker's ranks, one until the worker says otherwise.
func (w *Worker) Ranks() []*Rank { return *w.ranks.Load() }

// Suspect takes a ready worker out of the choice at once and probes it: the
// request path calls it when a connection failed. Its process may be another
// one by now, so the probe asks for that too.
func (w *Worker) Suspect() {
	w.suspicion.raised.Store(true)
	if w.state.CompareAndSwap(uint32(Ready), uint32(Slow)) {
		w.since.Store(time.Now().UnixNano())
	}
	w.Probe()
}

// Probe asks for a probe now instead of at the next interval.
func (w *Worker) Probe() {
	select {
	case w.kick <- struct{}{}:
	default: // one is already asked for
	}
}

// Await registers leave to be called when the worker is found hanging, again after each probe for as long as it hangs, and
// when it is found dead. The request path registers a request until its answer begins, so that it can be sent elsewhere; the
// returned key ends that with Begun. leave cancels the request and reports so, or leaves it where it is: of a worker that only
// hangs, one with nowhere else to go may get its answer yet. It is called under the worker's lock: it must not block and not
// call back.
func (w *Worker) Await(leave func(dead bool) bool) (key uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nextKey++
	w.unbegun[w.nextKey] = leave
	return w.nextKey
}

// Begun ends what Await began.
func (w *Worker) Begun(key uint64) {
	w.mu.Lock()
	delete(w.unbegun, key)
	w.mu.Unlock()
}

// giveUp has every request whose answer has not begun leave, if it can; those that could not are asked again the next time. It
// does so under the lock: once Begun has returned, the request's memory serves another one and must not be canceled any
// more.
func (w *Worker) giveUp(dead bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, leave := range w.unbegun {
		if leave(dead) {
			delete(w.unbegun, key)
		}
	}
}

// setState publishes a probe's finding and returns the one before.
func (w *Worker) setState(s State) (old State) {
	old = State(w.state.Swap(uint32(s)))
	if old != s {
		w.since.Store(time.Now().UnixNano())
	}
	return old
}

func (w *Worker) setError(err error) {
	if err == nil {
		w.lastErr.Store(nil)
		return
	}
	text := err.Error()
	w.lastErr.Store(&text)
}
