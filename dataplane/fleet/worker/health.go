package worker

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// GPUState is a worker's state by the facts about its GPUs, as State is by its probes. A higher
// one is worse.
type GPUState uint8

const (
	// GPUUnknown is a worker without facts: it has no GPU, no sidecar reports them, or the facts
	// are too old. Choices treat it as healthy.
	GPUUnknown GPUState = iota
	// GPUHealthy is a worker with faultless GPUs.
	GPUHealthy
	// GPUDegraded takes requests, as many as its weight is worth.
	GPUDegraded
	// GPUDraining finishes its requests and gets no new one.
	GPUDraining
	// GPUDead computes nothing, whether its HTTP server answers or not.
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

// ParseGPUState returns the state of that name. "", which earlier releases write, and names of
// later releases are GPUUnknown; ok is false for the latter.
func ParseGPUState(name string) (s GPUState, ok bool) {
	for i, n := range gpuStateNames {
		if n == name {
			return GPUState(i), true
		}
	}
	return GPUUnknown, name == ""
}

// Health holds the facts about a worker's GPUs as package health judges them; of several GPUs
// the worst counts. The zero value is GPUUnknown, which counts as healthy.
type Health struct {
	State   GPUState
	Weight  float64  // share of its speed that is left, in (0, 1]; 0 is unknown: 1
	NoTP    bool     // must not compute one request together with other GPUs
	Free    int64    // bytes of GPU memory, of the GPU that has least; 0 is unknown
	Reasons []string // in words, worst first
	// At is when the facts last held, by this machine's clock; SetHealth replaces a zero or
	// future one by now. Facts older than HealthFor count for nothing, so their source repeats
	// them, unchanged ones too, every third of that.
	At time.Time
}

const (
	// HealthFor is how long facts count. Nodes repeat theirs every few seconds, and a node that
	// is gone takes its workers along within 3 s. The limit is for silent nodes that are not
	// gone: probes know more than old facts.
	HealthFor = 30 * time.Second
	// ScarceMemory is the free GPU memory in bytes below which choices consider it: a prefill
	// chunk of 8,192 tokens needs about 1 GiB for its activations, and a failed allocation ends
	// the engine. The number is ours.
	ScarceMemory = 1 << 30
	// deathBurst is how close deaths must be to look like one event.
	deathBurst = 10 * time.Second
	// deathSettles is how long facts must call a worker dead before its waiting requests are
	// given up. By then the facts about other workers have come, which tell a bug of the
	// monitoring from a death.
	deathSettles = 500 * time.Millisecond
)

// gpuHealth holds the facts about a worker's GPUs.
type gpuHealth struct {
	published *atomic.Uint64 // read by choices; fixed
	allRanks  func() []*Rank // fixed

	told atomic.Pointer[Health] // for people; nil: none yet
	// Unix nanoseconds at which the facts began to say dead; 0: they do not.
	died    atomic.Int64
	doubted atomic.Bool  // and are not believed
	fleet   *fleetHealth // fixed
}

// fleetHealth weighs the facts about all workers of one registry against each other.
type fleetHealth struct {
	mu  sync.Mutex       // held while facts are taken in, some µs; never by choices
	all func() []*Worker // nil in tests of one worker
}

// SetHealth publishes facts about the worker's GPUs. A worker that they call dead gets no
// request from now on, and requests without a first byte go elsewhere.
func (f *gpuHealth) SetHealth(h Health) {
	now := time.Now()
	if h.At.IsZero() || h.At.After(now) {
		h.At = now
	}
	if h.State > GPUDead {
		h.State = GPUUnknown
	}
	if !(h.Weight > 0 && h.Weight < 1) { // NaN included
		h.Weight = 1
	}
	f.fleet.mu.Lock()
	defer f.fleet.mu.Unlock()
	old, before := f.told.Load(), Verdict(f.published.Load())
	f.told.Store(&h)
	dead, was := h.State == GPUDead, f.died.Load() != 0
	switch {
	case dead && (!was || old.stale(now)):
		f.died.Store(now.UnixNano())
		f.fleet.judgeDeathsLocked(now)
	case was && !dead:
		f.died.Store(0)
		f.doubted.Store(false)
		f.fleet.judgeDeathsLocked(now)
	}
	f.publishLocked()
	f.keepSpeeds(before, Verdict(f.published.Load()))
}

// Health returns the facts of the last SetHealth. Facts that are too old are GPUUnknown, without
// Weight, NoTP and Free, and with a reason; At stays.
func (f *gpuHealth) Health() Health { return f.HealthAt(time.Now()) }

// HealthAt is Health at a time.
func (f *gpuHealth) HealthAt(now time.Time) Health {
	p := f.told.Load()
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

// Doubted reports whether facts that call the worker dead are not believed: they killed most
// workers that answer their probes at one instant, or the last one.
func (f *gpuHealth) Doubted() bool { return f.doubted.Load() }

func (h *Health) stale(now time.Time) bool { return now.Sub(h.At) > HealthFor }

// publishLocked publishes the verdict.
func (f *gpuHealth) publishLocked() {
	if h := f.told.Load(); h != nil {
		f.published.Store(uint64(verdictOf(h, f.doubted.Load())))
	}
}

// judgeDeathsLocked decides which deaths are believed. Deaths of workers that answer their
// probes are doubted when they lie within one instant and are more than half of the workers
// left: a wrong fact must not stop a cluster that answers.
func (p *fleetHealth) judgeDeathsLocked(now time.Time) {
	if p.all == nil {
		return
	}
	dead, answering := deaths(p.all(), now)
	for i := range dead {
		dead[i].doubted.Store(false)
	}
	for from := range dead {
		first, to := dead[from].died.Load(), from
		for to < len(dead) && dead[to].died.Load()-first <= int64(deathBurst) {
			to++
		}
		if 2*(to-from) <= answering-from {
			continue
		}
		for _, w := range dead[from:to] {
			w.doubted.Store(true)
		}
	}
	for _, w := range dead {
		w.publishLocked()
	}
}

// keepSpeeds remembers the speeds of the ranks before the worker lost a part of its speed: later
// measurements include the loss.
func (f *gpuHealth) keepSpeeds(before, after Verdict) {
	slowed := after.Weight() < 1
	if slowed == (before.Weight() < 1) {
		return
	}
	now := time.Now().UnixNano()
	for _, rank := range f.allRanks() {
		rate := 0.0
		if slowed {
			rate = rank.Load.ViewAt(now).Rate
		}
		rank.fullSpeed.Store(math.Float64bits(rate))
	}
}
