package worker

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/dataplane/secrets"
)

// Worker is one SGLang server.
type Worker struct {
	// Every choice reads these fields of every worker: they share a cache line.
	state   atomic.Uint32 // by the probes; see State
	drains                // reasons for which the worker drains
	verdict atomic.Uint64 // by the facts about its GPUs; see Verdict
	info    atomic.Pointer[Info]
	Outcomes

	URL  string      // "http://host:port", as given, without a trailing slash
	Addr string      // host:port to dial
	TLS  *tls.Config // nil for plain HTTP

	spec       atomic.Pointer[Spec]
	key        atomic.Pointer[Key] // as the monitor last found it
	host       string              // of the URL
	hostNumber uint32

	specChanged atomic.Bool // the monitor has not seen spec yet
	suspicion   suspicion
	gpuHealth
	nodeNumber atomic.Uint32 // see SetNodeNumber
	probeRecord
	ranks    atomic.Pointer[[]*Rank]
	probeNow chan struct{} // capacity 1: probe now
	unanswered
}

// splitURL checks a worker's URL, whose scheme is http where it has none; port is the one to dial.
func splitURL(raw string) (u *url.URL, port string, err error) {
	if strings.ContainsRune(raw, '@') { // the parser's errors quote parts of a password
		return nil, "", fmt.Errorf("cannot use worker %q: %w: a user or password is not supported; the keys of workers are in --worker-api-key-file", secrets.MaskURL(raw), ErrBadURL)
	}
	full := strings.TrimRight(raw, "/")
	if _, _, err := net.SplitHostPort(full); err == nil && !strings.Contains(full, "://") {
		full = "http://" + full
	}
	u, err = url.Parse(full)
	if err != nil {
		return nil, "", fmt.Errorf("cannot use worker %q: %w: %w", secrets.MaskURL(raw), ErrBadURL, secrets.URLError(err))
	}
	if (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" {
		return nil, "", fmt.Errorf("cannot use worker %q: %w: want http://host:port, https://host:port or host:port", secrets.MaskURL(raw), ErrBadURL)
	}
	if u.Path != "" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return nil, "", fmt.Errorf("cannot use worker %q: %w: a path, query or fragment is not supported", secrets.MaskURL(raw), ErrBadURL)
	}
	port = u.Port()
	if n, err := strconv.ParseUint(port, 10, 16); strings.HasSuffix(u.Host, ":") || (port != "" && (err != nil || n == 0)) {
		return nil, "", fmt.Errorf("cannot use worker %q: %w: want a port from 1 to 65535", secrets.MaskURL(raw), ErrBadURL)
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
		URL: spec.URL, host: u.Hostname(), probeNow: make(chan struct{}, 1),
	}
	w.published, w.allRanks, w.fleet = &w.verdict, w.Ranks, &fleetHealth{}
	w.spec.Store(&spec)
	w.key.Store(noKey)
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

// State returns the worker's state, drains included.
func (w *Worker) State() State {
	s := State(w.state.Load())
	if s != Dead && w.draining() {
		return Draining
	}
	return s
}

// HostNumber numbers the worker's host: workers with one number share it. Numbers are small, and
// numbers of hosts without a worker are used again.
func (w *Worker) HostNumber() uint32 { return w.hostNumber }

// Info returns the worker's description, or nil before its first answer.
func (w *Worker) Info() *Info { return w.info.Load() }

// Key returns the worker's API key, never nil.
func (w *Worker) Key() *Key { return w.key.Load() }

// Ranks returns the worker's ranks, one until its description is known.
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
	case w.probeNow <- struct{}{}:
	default: // one is already asked for
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

// Probed returns the state by probes alone.
func (w *Worker) Probed() State { return State(w.state.Load()) }

// Spec returns the worker's spec.
func (w *Worker) Spec() Spec { return *w.spec.Load() }

// InFlight returns the requests that this router has sent to the worker and that have not ended.
func (w *Worker) InFlight() (n int64) {
	for _, r := range w.Ranks() {
		n += r.Load.InFlight()
	}
	return n
}

// Verdict returns the verdict at a time in unix nanoseconds.
func (w *Worker) Verdict(now int64) Verdict {
	v := Verdict(w.verdict.Load())
	if v != 0 && now/int64(time.Second)-int64(v>>verdictAt) > int64(HealthFor/time.Second) {
		return 0
	}
	return v
}

// Fit reports at a glance that the worker is ready, its breaker closed, and no fact about its
// GPUs counts against it.
func (w *Worker) Fit() bool {
	return w.verdict.Load() == 0 && State(w.state.Load()) == Ready && !w.draining() && w.Breaker.Closed()
}

// SetNodeNumber publishes the number, from 1, of the cluster's node that the worker is on, by
// which links are measured; 0 is unknown. A host may have several nodes and a node several host
// names, so HostNumber differs.
func (w *Worker) SetNodeNumber(n uint32) { w.nodeNumber.Store(n) }

// NodeNumber returns the number of the last SetNodeNumber.
func (w *Worker) NodeNumber() uint32 { return w.nodeNumber.Load() }
