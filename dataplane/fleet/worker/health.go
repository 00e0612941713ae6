package worker

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// GPUState says what a worker is fit for by the facts about its GPUs, as State does by its probes. A higher one is worse.
type GPUState uint8

const (
	// GPUUnknown is a worker without facts about its GPUs: it has none, no sidecar reports them, or the facts are too old.
	// Choices treat it as healthy.
	GPUUnknown GPUState = iota
	// GPUHealthy is a worker whose GPUs were examined and have no fault.
	GPUHealthy
	// GPUDegraded takes requests, as many as its weight is worth.
	GPUDegraded
	// GPUDraining finishes what it has and gets nothing new.
	GPUDraining
	// GPUDead computes nothing any more, whatever the server says that runs beside it.
	GPUDead
)

var gpuStateNames = [...]string{"unknown", "healthy", "degraded", "draining", "dead"}

// String names the state as /status and /workers show it.
func (s GPUState) String() string {
	if int(s) >= len(gpuStateNames) {
		return fmt.Sprintf("state %d", int(s))
	}
	return gpuStateNames[s]
}

// ParseGPUState returns the state of that name. "", which earlier releases write, and names of later releases are GPUUnknown;
// ok is false for the latter.
func ParseGPUState(name string) (s GPUState, ok bool) {
	for i, n := range gpuStateNames {
		if n == name {
			return GPUState(i), true
		}
	}
	return GPUUnknown, name == ""
}

// Health is what the facts about a worker's GPUs mean for the choice of it, as package health judges them: of several GPUs the worst. The
// zero value is GPUUnknown, which counts as healthy.
type Health struct {
	State   GPUState
	Weight  float64  // share of its speed that is left, in (0, 1]; 0 is unknown: 1
	NoTP    bool     // must not compute one request together with other GPUs
	Free    int64    // bytes of GPU memory, of the GPU that has least; 0 is unknown
	Reasons []string // in words, worst first
	// At is when the facts were last known to hold, by this machine's clock; SetHealth takes a zero one, and one to come, for now. Facts older than HealthFor count for nothing:
	// whoever knows them tells them again, unchanged ones too, every third of that.
	At time.Time
}

const (
	// HealthFor is how long facts are believed. Nodes tell theirs every few seconds, and one that is gone takes its workers along within
	// 3 s; this is for those that are silent and not gone, of which probes know more than old facts do.
	HealthFor = 30 * time.Second
	// ScarceMemory is the free GPU memory in bytes below which it is told to choices: a prefill chunk of 8,192 tokens needs about 1 GiB for
	// its activations, and an allocation that fails ends the engine. The number is ours.
	ScarceMemory = 1 << 30
	// oneInstant is how close deaths must be to look like one event.
	oneInstant = 10 * time.Second
	// deathSettles is how long facts must call a worker dead before its waiting requests are given up: time for those of the other workers
	// to come, by which a bug of the monitoring is told from a death.
	deathSettles = 500 * time.Millisecond
)

// healthFacts is the part of a Worker that SetHealth writes.
type healthFacts struct {
	told    atomic.Pointer[Health] // for people; nil: never told
	died    atomic.Int64           // unix nanoseconds since when the facts say dead; 0: they do not
	doubted atomic.Bool            // and are not believed
	peers   *peers                 // fixed
	gaveUp  int64                  // the death after which requests were given up; the monitor's alone
	faded   bool                   // said so; the monitor's alone
}

// peers are the workers among which facts are weighed: those of one registry.
type peers struct {
	mu  sync.Mutex       // held while facts are taken in, some µs; never by choices
	all func() []*Worker // nil in tests of one worker
}

// SetHealth publishes what is known of the worker's GPUs. A worker that is dead by it gets no requests from now on, and those that it has
// not begun to answer go elsewhere.
func (w *Worker) SetHealth(h Health) {
	now := time.Now()
	if h.At.IsZero() || h.At.After(now) {
		h.At = now
	}
	if h.State > GPUDead {
		h.State = GPUUnknown
	}
	if !(h.Weight > 0 && h.Weight < 1) { // and what is no number
		h.Weight = 1
	}
	f := &w.health
	f.peers.mu.Lock()
	defer f.peers.mu.Unlock()
	old, before := f.told.Load(), Verdict(w.verdict.Load())
	f.told.Store(&h)
	dead, was := h.State == GPUDead, f.died.Load() != 0
	switch {
	case dead && (!was || old.stale(now)):
		f.died.Store(now.UnixNano())
		f.peers.reckonLocked(now)
	case was && !dead:
		f.died.Store(0)
		f.doubted.Store(false)
		f.peers.reckonLocked(now)
	}
	w.publishLocked()
	w.keepSpeeds(before, Verdict(w.verdict.Load()))
}

// Health returns what SetHealth published last. Facts that are too old are GPUUnknown, without Weight, NoTP and Free, and with a
// reason that says so; At is still theirs.
func (w *Worker) Health() Health { return w.HealthAt(time.Now()) }

// HealthAt is Health at a time.
func (w *Worker) HealthAt(now time.Time) Health {
	p := w.health.told.Load()
	switch {
	case p == nil:
		return Health{Weight: 1}
	case !p.stale(now):
		return *p
	}
	said := p.State.String()
	return Health{Weight: 1, At: p.At, Reasons: []string{
		fmt.Sprintf("nothing was heard of its GPUs for %s; the last was: %s", now.Sub(p.At).Round(time.Second), said),
	}}
}

// Doubted reports whether the facts say that the worker is dead and are not believed: most workers that answer their probes died by them at
// one instant, or the last one did.
func (w *Worker) Doubted() bool { return w.health.doubted.Load() }

func (h *Health) stale(now time.Time) bool { return now.Sub(h.At) > HealthFor }

// publishLocked makes the verdict of what was told.
func (w *Worker) publishLocked() {
	if h := w.health.told.Load(); h != nil {
		w.verdict.Store(uint64(verdictOf(h, w.health.doubted.Load())))
	}
}

// reckonLocked decides which deaths are believed. Of workers that answer their probes, those are not that are more than half of all that were
// left and lie within one instant: a cluster that answers must not be stopped by a wrong fact.
func (p *peers) reckonLocked(now time.Time) {
	if p.all == nil {
		return
	}
	dead, answering := deaths(p.all(), now)
	for i := range dead {
		dead[i].health.doubted.Store(false)
	}
	for from := range dead {
		first, to := dead[from].health.died.Load(), from
		for to < len(dead) && dead[to].health.died.Load()-first <= int64(oneInstant) {
			to++
		}
		if 2*(to-from) <= answering-from {
			continue
		}
		for _, w := range dead[from:to] {
			w.health.doubted.Store(true)
		}
	}
	for _, w := range dead {
		w.publishLocked()
	}
}
