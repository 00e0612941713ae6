package worker

import (
	"cmp"
	"fmt"
	"math"
	"slices"
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
	if i := slices.Index(gpuStateNames[:], name); i >= 0 {
		return GPUState(i), true
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

// gpuFacts holds the facts about a worker's GPUs. Registry.facts is held while they change.
type gpuFacts struct {
	told atomic.Pointer[Health] // for people; nil: none yet
	// Unix nanoseconds at which the facts began to say dead; 0: they do not.
	died    atomic.Int64
	doubted atomic.Bool // and are not believed
}

// SetHealth publishes facts about the worker's GPUs. A worker that they call dead gets no
// request from now on, and requests without a first byte go elsewhere.
func (w *Worker) SetHealth(h Health) {
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
	w.registry.facts.Lock()
	defer w.registry.facts.Unlock()
	old, before := w.gpus.told.Load(), w.verdict.Load()
	w.gpus.told.Store(&h)
	dead, was := h.State == GPUDead, w.gpus.died.Load() != 0
	switch {
	case dead && (!was || old.stale(now)):
		w.gpus.died.Store(now.UnixNano())
		judgeDeaths(w.registry.Snapshot().Workers, now)
	case was && !dead:
		w.gpus.died.Store(0)
		w.gpus.doubted.Store(false)
		judgeDeaths(w.registry.Snapshot().Workers, now)
	}
	w.publishVerdict()
	w.keepSpeeds(before, w.verdict.Load())
}

// Health returns the facts of the last SetHealth. Facts that are too old are GPUUnknown, without
// Weight, NoTP and Free, and with a reason; At stays.
func (w *Worker) Health(now time.Time) Health {
	p := w.gpus.told.Load()
	switch {
	case p == nil:
		return Health{Weight: 1}
	case !p.stale(now):
		return *p
	}
	return Health{Weight: 1, At: p.At, Reasons: []string{
		fmt.Sprintf("nothing was heard of its GPUs for %s; the last was: %s", now.Sub(p.At).Round(time.Second), p.State),
	}}
}

// Doubted reports whether facts that call the worker dead are not believed: they killed most
// workers that answer their probes at one instant, or the last one.
func (w *Worker) Doubted() bool { return w.gpus.doubted.Load() }

func (h *Health) stale(now time.Time) bool { return now.Sub(h.At) > HealthFor }

func (w *Worker) publishVerdict() {
	if h := w.gpus.told.Load(); h != nil {
		w.verdict.Store(verdictOf(h, w.gpus.doubted.Load()))
	}
}

// judgeDeaths decides which deaths are believed. Deaths of workers that answer their probes are
// doubted when they lie within one instant and are more than half of the workers left: a wrong
// fact must not stop a cluster that answers.
func judgeDeaths(all []*Worker, now time.Time) {
	answering := 0
	var dead []*Worker // that answer their probes, the first death first
	for _, w := range all {
		if s := w.State(); s != Ready && s != Slow {
			continue
		}
		answering++
		if w.gpus.died.Load() != 0 && !w.gpus.told.Load().stale(now) {
			dead = append(dead, w)
			w.gpus.doubted.Store(false)
		}
	}
	slices.SortFunc(dead, func(a, b *Worker) int { return cmp.Compare(a.gpus.died.Load(), b.gpus.died.Load()) })
	for from := range dead {
		first, to := dead[from].gpus.died.Load(), from
		for to < len(dead) && dead[to].gpus.died.Load()-first <= int64(deathBurst) {
			to++
		}
		if 2*(to-from) <= answering-from {
			continue
		}
		for _, w := range dead[from:to] {
			w.gpus.doubted.Store(true)
		}
	}
	for _, w := range dead {
		w.publishVerdict()
	}
}

// keepSpeeds remembers the speeds of the ranks before the worker lost a part of its speed: later
// measurements include the loss.
func (w *Worker) keepSpeeds(before, after *Verdict) {
	slowed := after.slowed()
	if slowed == before.slowed() {
		return
	}
	for _, rank := range w.Ranks() {
		rate := 0.0
		if slowed {
			rate = rank.Load.View(time.Now()).Rate
		}
		rank.fullSpeed.Store(math.Float64bits(rate))
	}
}

// checkGPUs logs stale facts. Once the facts have called the worker dead for deathSettles,
// requests without a first byte go elsewhere: once for each death, and only while another worker
// can take them.
func (m *monitor) checkGPUs(now time.Time) {
	told := m.w.gpus.told.Load()
	if told == nil {
		return
	}
	if stale := told.stale(now); stale != m.factsStale {
		m.factsStale = stale
		if stale && told.State != GPUUnknown {
			m.cfg.Log.Warn("no facts about a worker's GPUs any more; its probes decide alone", "worker", m.w.URL, "last", told.State.String(), "at", told.At)
		}
	}
	died := m.w.gpus.died.Load()
	if died == 0 || died == m.gaveUpFor || m.factsStale || m.w.Doubted() || now.UnixNano()-died < int64(deathSettles) || !m.replaceable(now) {
		return
	}
	m.gaveUpFor = died
	m.cfg.Log.Warn("worker's GPUs are dead; its waiting requests go elsewhere", "worker", m.w.URL, "reasons", told.Reasons)
	m.w.waiting.giveUp(false)
}

// replaceable reports whether another worker could take the requests of this one.
func (m *monitor) replaceable(now time.Time) bool {
	mine := m.w.Info()
	return mine != nil && slices.ContainsFunc(m.r.Snapshot().Workers, func(o *Worker) bool {
		info, v := o.Info(), o.Verdict(now.UnixNano())
		return o != m.w && info != nil && o.State() == Ready && (v == nil || v.State < GPUDraining) &&
			info.Role() == mine.Role() && info.Model() == mine.Model()
	})
}

// Verdict is the part of a worker's Health that choices need. nil stands for healthy, unknown and
// too old, so that a choice follows no pointer where all is well.
type Verdict struct {
	State  GPUState // GPUHealthy where no fault is known, or the death is doubted
	Weight float64  // share of its speed that the worker has left, in whole percents, above 0
	NoTP   bool     // it must not compute one request on several GPUs
	Free   int64    // bytes of GPU memory, where fewer than ScarceMemory are left; else 0

	at int64 // unix nanoseconds of the facts
}

func verdictOf(h *Health, doubted bool) *Verdict {
	v := Verdict{
		State: max(h.State, GPUHealthy), // unknown counts as healthy
		NoTP:  h.NoTP, Weight: max(math.Round(h.Weight*100), 1) / 100, at: h.At.UnixNano(),
	}
	if doubted {
		v.State = GPUHealthy
	}
	if h.Free > 0 && h.Free < ScarceMemory {
		v.Free = h.Free
	}
	if v.State <= GPUDegraded && v.Weight == 1 && !v.NoTP && v.Free == 0 {
		return nil
	}
	return &v
}

// slowed reports whether the worker has lost a part of its speed.
func (v *Verdict) slowed() bool { return v != nil && v.Weight < 1 }
