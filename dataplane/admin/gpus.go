package admin

import (
	"time"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/routing"
)

// GPUHealthStatus is the health of a worker's GPUs.
type GPUHealthStatus struct {
	State  string  `json:"state"`  // unknown, healthy, degraded, draining or dead
	Weight float64 `json:"weight"` // share of the worker's speed that is left
	NoTP   bool    `json:"no_tp,omitempty"`
	Free   int64   `json:"free_bytes,omitempty"` // of the GPU with the least
	// Doubted marks a death that choices ignore: most workers that answer died at one instant by
	// their GPU facts, or this one is the last.
	Doubted bool     `json:"doubted,omitempty"`
	Reasons []string `json:"reasons,omitempty"`     // worst first
	Age     float64  `json:"age_seconds,omitempty"` // of the facts; absent where there were none
}

func gpuHealth(w *worker.Worker, now time.Time) *GPUHealthStatus {
	h := w.Health(now)
	s := &GPUHealthStatus{
		State: h.State.String(), Weight: h.Weight, NoTP: h.NoTP, Free: h.Free, Reasons: h.Reasons,
		Doubted: h.State == worker.GPUDead && w.Doubted(),
	}
	if !h.At.IsZero() {
		s.Age = max(now.Sub(h.At).Seconds(), 0)
	}
	return s
}

// overruledReason names the GPU facts that a choice had to ignore; "" where there are none.
func overruledReason(d *routing.Decision) string {
	if d.Overruled == routing.NoGPUFault {
		return ""
	}
	return "GPU facts exclude every candidate: the least bad are used (" + d.Overruled.String() + ")"
}

var (
	descGPUState = desc("worker_health",
		"1, with the health state of the worker's GPUs; absent where there are no facts about them.", "worker", "state")
	descGPUWeight = desc("worker_health_weight",
		"Share of its speed that the worker has left by its GPU facts; absent where it has all of it.", "worker")
	descGPUDoubted = desc("worker_health_doubted",
		"1 for a worker that is dead by GPU facts that choices ignore.", "worker")
	descGPUExcluded = desc("health_excluded_total",
		"Ranks excluded from choices because of their GPUs.", "reason")
	descGPUOverruled = desc("health_overruled_total",
		"Choices for which GPU facts excluded every candidate: the least bad rank was used.")
)

// gpus sends the health of workers' GPUs, and its effect on choices.
func (out sink) gpus(workers []*worker.Worker, now time.Time, x *routing.Exclusions) {
	for _, w := range workers {
		h := gpuHealth(w, now)
		if h.State == worker.GPUUnknown.String() {
			continue
		}
		out.gauge(descGPUState, 1, w.URL, h.State)
		if h.Weight < 1 {
			out.gauge(descGPUWeight, h.Weight, w.URL)
		}
		if h.Doubted {
			out.gauge(descGPUDoubted, 1, w.URL)
		}
	}
	out.counter(descGPUExcluded, float64(x.Dead.Load()), "dead")
	out.counter(descGPUExcluded, float64(x.Draining.Load()), "draining")
	out.counter(descGPUExcluded, float64(x.NoTP.Load()), "no_tp")
	out.counter(descGPUOverruled, float64(x.Overruled.Load()))
}
