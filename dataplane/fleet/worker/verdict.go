package worker

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Verdict is the part of a worker's Health that choices need, in one word: one atomic load that
// follows no pointer. 0 is healthy, unknown or too old.
type Verdict uint64

// The bits of a Verdict, from the lowest: 2 of state, 1 of NoTP, 7 of weight in percent, 11 of
// free memory in MiB where that is scarce, and the seconds of At.
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

// State is GPUHealthy when no fault is known, or when the death is doubted.
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

// deaths returns the workers that facts call dead and that answer their probes, the first death
// first, and the number of workers that answer.
func deaths(all []*Worker, now time.Time) (dead []*Worker, answering int) {
	for _, w := range all {
		if s := w.State(); s != Ready && s != Slow {
			continue
		}
		answering++
		if told := w.told.Load(); w.died.Load() != 0 && !told.stale(now) {
			dead = append(dead, w)
		}
	}
	slices.SortFunc(dead, func(a, b *Worker) int { return cmp.Compare(a.died.Load(), b.died.Load()) })
	return dead, answering
}
