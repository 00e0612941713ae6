package worker

import (
	"crypto/tls"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"
)

// Worker is one SGLang server.
type Worker struct {
	// Every choice reads these fields of every worker: they share a cache line.
	state   atomic.Uint32           // by the probes; see State
	drains  atomic.Uint32           // the set of DrainReasons
	drained atomic.Int64            // when the first of them came, in Unix nanoseconds
	verdict atomic.Pointer[Verdict] // by the facts about its GPUs
	info    atomic.Pointer[Info]
	// Breaker keeps requests away from a worker that fails them, whether its probes succeed or
	// not.
	Breaker Breaker

	URL  string      // "http://host:port", as given, without a trailing slash
	Addr string      // host:port to dial
	TLS  *tls.Config // nil for plain HTTP

	registry   *Registry // nil of a worker that is only identified
	host       string    // of the URL
	hostNumber uint32
	nodeNumber atomic.Uint32 // see SetNodeNumber

	spec        atomic.Pointer[Spec]
	specChanged atomic.Bool         // the monitor has not seen spec yet
	key         atomic.Pointer[Key] // as the monitor last found it
	ranks       atomic.Pointer[[]*Rank]

	probe    probed
	gpus     gpuFacts
	refusals refusals
	waiting  unanswered
	double   atomic.Pointer[Worker] // see Double
}

// probed holds the results of a worker's probes, besides its state.
type probed struct {
	since  atomic.Int64 // unix nanoseconds of the last change of state
	alive  atomic.Int64 // unix nanoseconds of the last answered probe
	failed atomic.Pointer[error]
	now    chan struct{} // capacity 1: probe now

	at    atomic.Pointer[netip.Addr] // of the last connection; nil: none since the name moved
	moved atomic.Bool                // the name has other addresses by now

	suspected   atomic.Bool  // the process behind the URL may be another one
	suspectFrom atomic.Int64 // unix nanoseconds at which suspicions count again
}

// suspectAfter returns the time until suspicions count again, 0 or less where they do: also where
// the last check is of a time to come, because the clock was set back.
func (p *probed) suspectAfter(now time.Time) time.Duration {
	wait := time.Duration(p.suspectFrom.Load() - now.UnixNano())
	if wait > maxSuspicionWait {
		return 0
	}
	return wait
}

// newWorker makes a worker of a spec; settings makes the TLS settings of one with https.
func newWorker(spec Spec, settings func(host string) *tls.Config, numbers *numbers) (*Worker, error) {
	spec, err := spec.Normal()
	if err != nil {
		return nil, err
	}
	u, port, err := splitURL(spec.URL)
	if err != nil {
		return nil, err
	}
	w := &Worker{
		URL: spec.URL, Addr: net.JoinHostPort(u.Hostname(), port), host: u.Hostname(),
		probe: probed{now: make(chan struct{}, 1)},
	}
	w.spec.Store(&spec)
	w.key.Store(noKey)
	w.DrainFor(DrainSource, spec.Drain)
	if u.Scheme == "https" {
		w.TLS = settings(u.Hostname())
	}
	ranks := newRanks(w, 1, numbers)
	w.ranks.Store(&ranks)
	w.probe.since.Store(time.Now().UnixNano())
	return w, nil
}

// State returns the worker's state, drains included.
func (w *Worker) State() State {
	s := State(w.state.Load())
	if s != Dead && w.drains.Load() != 0 {
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
	w.probe.suspected.Store(true)
	if w.state.CompareAndSwap(uint32(Ready), uint32(Slow)) {
		w.probe.since.Store(time.Now().UnixNano())
	}
	w.Probe()
}

// Doubt notes that the process behind the URL may have been replaced: the connection of its
// probes or of its events has ended, or its answers look like another process's. Requests go to
// other workers until the monitor knows, which takes two short questions.
func (w *Worker) Doubt() {
	if w.probe.suspectAfter(time.Now()) <= 0 {
		w.Suspect()
		return
	}
	w.Recheck()
}

// Recheck is Doubt for signs that a client can cause: the worker stays in the choice meanwhile.
func (w *Worker) Recheck() {
	if !w.probe.suspected.Swap(true) {
		w.Probe()
	}
}

// Probe asks for a probe now instead of at the next interval.
func (w *Worker) Probe() {
	select {
	case w.probe.now <- struct{}{}:
	default: // one is already asked for
	}
}

// setState publishes a probe's finding and returns the one before.
func (w *Worker) setState(s State) (old State) {
	old = State(w.state.Swap(uint32(s)))
	if old != s {
		w.probe.since.Store(time.Now().UnixNano())
	}
	return old
}

// Probed returns the state by probes alone.
func (w *Worker) Probed() State { return State(w.state.Load()) }

// Since returns when the probed state last changed.
func (w *Worker) Since() time.Time { return time.Unix(0, w.probe.since.Load()) }

// StateSince returns when the state began: that of the drain where one makes the state.
func (w *Worker) StateSince() time.Time {
	if w.State() == Draining {
		return time.Unix(0, w.drained.Load())
	}
	return w.Since()
}

// Alive returns when the last probe was answered. A SGLang engine whose scheduler has died
// answers none from then on, and keeps its connections open for 5 to 65 s.
func (w *Worker) Alive() time.Time { return time.Unix(0, w.probe.alive.Load()) }

// LastError returns the words of the last failed probe, or "".
func (w *Worker) LastError() string {
	if err := w.probe.failed.Load(); err != nil && *err != nil {
		return (*err).Error()
	}
	return ""
}

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
func (w *Worker) Verdict(now int64) *Verdict {
	v := w.verdict.Load()
	if v != nil && now-v.at > int64(HealthFor) {
		return nil
	}
	return v
}

// Fit reports at a glance that the worker is ready, its breaker closed, and no fact about its
// GPUs counts against it.
func (w *Worker) Fit() bool {
	return w.verdict.Load() == nil && State(w.state.Load()) == Ready && w.drains.Load() == 0 && w.Breaker.Closed()
}

// SetNodeNumber publishes the number, from 1, of the cluster's node that the worker is on, by
// which links are measured; 0 is unknown. A host may have several nodes and a node several host
// names, so HostNumber differs.
func (w *Worker) SetNodeNumber(n uint32) { w.nodeNumber.Store(n) }

// NodeNumber returns the number of the last SetNodeNumber.
func (w *Worker) NodeNumber() uint32 { return w.nodeNumber.Load() }

// State is a worker's state by its probes.
type State uint32

const (
	// Probing is a worker that is not ready.
	Probing State = iota
	// Ready answers its probes and may be chosen.
	Ready
	// Slow lets its probes time out: it may hang or be overloaded. It is chosen
	// only when no worker is ready, and its index is kept.
	Slow
	// Dead refuses connections or resets them. Its cache is gone with it.
	Dead
	// Draining finishes its requests and gets no new one.
	Draining
)

// String names the state as /status and /workers show it.
func (s State) String() string {
	return [...]string{"probing", "ready", "slow", "dead", "draining"}[s]
}

// DrainReason is a reason for which a worker finishes its requests and gets no new one. A worker
// drains while any reason holds, so one operator cannot end the drain of another one's.
type DrainReason uint32

const (
	// DrainOperator was asked for by POST /workers/drain, or is a mark in the cluster.
	DrainOperator DrainReason = 1 << iota
	// DrainSource comes from the worker's source: a terminating pod, a drained node.
	DrainSource
	// DrainLeaving is a worker that no source names any more.
	DrainLeaving
	// DrainDouble is another name of a worker that is used.
	DrainDouble
)

// String names the reason as /workers shows it.
func (r DrainReason) String() string {
	return map[DrainReason]string{DrainOperator: "operator", DrainSource: "source", DrainLeaving: "leaving", DrainDouble: "double"}[r]
}

// Drain sets or clears DrainOperator, which only its manager may if it has one. Requests in flight
// finish.
func (w *Worker) Drain(on bool) { w.DrainFor(DrainOperator, on) }

// DrainFor is Drain for any reason.
func (w *Worker) DrainFor(why DrainReason, on bool) {
	if on {
		if w.drains.Load() == 0 {
			w.drained.Store(time.Now().UnixNano())
		}
		w.drains.Or(uint32(why))
	} else {
		w.drains.And(^uint32(why))
	}
}

// Drains reports whether the worker drains for this reason.
func (w *Worker) Drains(why DrainReason) bool { return w.drains.Load()&uint32(why) != 0 }

// DrainReasons returns why the worker drains, in words.
func (w *Worker) DrainReasons() (why []string) {
	for _, r := range []DrainReason{DrainOperator, DrainSource, DrainLeaving, DrainDouble} {
		if w.Drains(r) {
			why = append(why, r.String())
		}
	}
	return slices.Clip(why)
}
