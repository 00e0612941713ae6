package worker

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Verdict is what a choice needs of a worker's Health, in one word so that it is read by one atomic load that follows no pointer. 0 is
// nothing to count: healthy, unknown or too old.
type Verdict uint64

// The bits of a Verdict, from the lowest: 2 of state, 1 of NoTP, 7 of weight in percent, 11 of free memory in MiB where that is scarce, and
// the seconds of At.
const (
	verdictState  = 3
	verdictNoTP   = 1 << 2
	verdictWeight = 3
	verdictFree   = 10
	verdictAt     = 21
	mebibyte      = 1 << 20
)

func verdictOf(h *Health, doubted bool) Verdict {
	state, free := max(h.State, GPUHealthy), int64(0) // unknown counts as healthy
	if doubted {
		state = GPUHealthy
	}
	if h.Free > 0 && h.Free < ScarceMemory {
		free = max(h.Free/mebibyte, 1)
	}
	percent := min(max(int64(math.Round(h.Weight*100)), 1), 100)
	if state <= GPUDegraded && percent == 100 && !h.NoTP && free == 0 {
		return 0
	}
	v := uint64(state-GPUHealthy) | uint64(percent)<<verdictWeight | uint64(free)<<verdictFree | uint64(max(h.At.Unix(), 0))<<verdictAt
	if h.NoTP {
		v |= verdictNoTP
	}
	return Verdict(v)
}

// Verdict returns what counts at a time in unix nanoseconds.
func (w *Worker) Verdict(now int64) Verdict {
	v := Verdict(w.verdict.Load())
	if v != 0 && now/int64(time.Second)-int64(v>>verdictAt) > int64(HealthFor/time.Second) {
		return 0
	}
	return v
}

// Fit reports, by one look, that nothing speaks against the worker: it is ready, its breaker is closed, and nothing is told of its GPUs that
// counts.
func (w *Worker) Fit() bool {
	return w.verdict.Load() == 0 && State(w.state.Load()) == Ready && w.drains.Load() == 0 && w.Breaker.Closed()
}

// State is GPUHealthy where nothing counts against the worker: no fault is known, or its death is doubted.
func (v Verdict) State() GPUState { return GPUState(v&verdictState) + GPUHealthy }

// NoTP reports whether the worker must not compute one request on several GPUs.
func (v Verdict) NoTP() bool { return v&verdictNoTP != 0 }

// Weight is the share of its speed that the worker has left, in (0, 1].
func (v Verdict) Weight() float64 {
	if v == 0 {
		return 1
	}
	return float64(v>>verdictWeight&127) / 100
}

// Free is the bytes of GPU memory that are left where they are fewer than ScarceMemory, else 0.
func (v Verdict) Free() int64 { return int64(v>>verdictFree&2047) * mebibyte }

// deaths returns the workers that are dead by facts and answer their probes all the same, the first death first, and how many answer.
func deaths(all []*Worker, now time.Time) (dead []*Worker, answering int) {
	for _, w := range all {
		if s := w.State(); s != Ready && s != Slow {
			continue
		}
		answering++
		if told := w.health.told.Load(); w.health.died.Load() != 0 && !told.stale(now) {
			dead = append(dead, w)
		}
	}
	slices.SortFunc(dead, func(a, b *Worker) int { return cmp.Compare(a.health.died.Load(), b.health.died.Load()) })
	return dead, answering
}

// keepSpeeds remembers how fast the ranks were before the worker lost a part of its speed: what they measure from then on is of what is left.
func (w *Worker) keepSpeeds(before, after Verdict) {
	slowed := after.Weight() < 1
	if slowed == (before.Weight() < 1) {
		return
	}
	now := time.Now().UnixNano()
	for _, rank := range w.Ranks() {
		rate := 0.0
		if slowed {
			rate = rank.Load.SeeAt(now).Rate
		}
		rank.full.Store(math.Float64bits(rate))
	}
}

// Full returns the prompt tokens that the rank computed a second before its worker lost a part of its speed; 0 where it has not, or where
// that is unknown.
func (r *Rank) Full() float64 { return math.Float64frombits(r.full.Load()) }

// heed acts on facts that the monitor's worker has by now: of one that is dead by them for deathSettles, requests without a first byte go
// elsewhere, once for each death and only while somebody else is there. It also says when facts have faded.
func (m *monitor) heed(now time.Time) {
	f := &m.w.health
	told := f.told.Load()
	if told == nil {
		return
	}
	if stale := told.stale(now); stale != f.faded {
		f.faded = stale
		if stale && told.State != GPUUnknown {
			m.cfg.Log.Warn("nothing is heard of a worker's GPUs any more; its probes decide alone", "worker", m.w.URL, "last", told.State.String(), "at", told.At)
		}
	}
	died := f.died.Load()
	if died == 0 || died == f.gaveUp || f.faded || m.w.Doubted() || now.UnixNano()-died < int64(deathSettles) || !m.others(now) {
		return
	}
	f.gaveUp = died
	m.cfg.Log.Warn("worker's GPUs are dead; its waiting requests go elsewhere", "worker", m.w.URL, "reasons", told.Reasons)
	m.w.giveUp(false)
}

// others reports whether another worker could take this one's requests.
func (m *monitor) others(now time.Time) bool {
	mine := m.w.Info()
	if mine == nil {
		return false
	}
	return slices.ContainsFunc(m.r.Snapshot().Workers, func(w *Worker) bool {
		info := w.Info()
		return w != m.w && info != nil && w.State() == Ready && w.Verdict(now.UnixNano()).State() < GPUDraining &&
			info.Role() == mine.Role() && info.Model() == mine.Model()
	})
}
