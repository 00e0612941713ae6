package request

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/routing"
)

// GPUHealthStatus is what the facts about a worker's GPUs mean for the choice.
type GPUHealthStatus struct {
	State  string  `json:"state"`  // unknown, healthy, degraded, draining or dead
	Weight float64 `json:"weight"` // share of its speed that is left
	NoTP   bool    `json:"no_tp,omitempty"`
	Free   int64   `json:"free_bytes,omitempty"` // of the GPU that has least
	// Doubted is a death that is not believed, for most workers that answer died at one instant by the facts, or it is the last one.
	Doubted bool     `json:"doubted,omitempty"`
	Reasons []string `json:"reasons,omitempty"` // worst first
	// Age is the time since the facts were known to hold; absent where there were none.
	Age float64 `json:"age_seconds,omitempty"`
}

func gpuHealth(w *worker.Worker, now time.Time) *GPUHealthStatus {
	h := w.HealthAt(now)
	s := &GPUHealthStatus{
		State: h.State.String(), Weight: h.Weight, NoTP: h.NoTP, Free: h.Free, Reasons: h.Reasons,
		Doubted: h.State == worker.GPUDead && w.Doubted(),
	}
	if !h.At.IsZero() {
		s.Age = max(now.Sub(h.At).Seconds(), 0)
	}
	return s
}

// overruledWords say which facts a choice could not heed.
func overruledWords(d *routing.Decision) string {
	if d.Overruled == routing.AgainstNothing {
		return ""
	}
	return "the facts about GPUs leave nobody out of those that could take it: the least bad are used (" + d.Overruled.String() + ")"
}

// healthCollector shows what is known of workers' GPUs, and what it did to choices.
type healthCollector struct {
	workers *worker.Registry
	passed  *routing.Passed
}

var (
	healthDesc = prometheus.NewDesc("warmpath_worker_health",
		"1 for the state that the facts about a worker's GPUs mean; unknown where there are none.", []string{"worker", "state"}, nil)
	healthWeightDesc = prometheus.NewDesc("warmpath_worker_health_weight",
		"Share of its speed that a worker has left by the facts about its GPUs; absent where there are none.", []string{"worker"}, nil)
	healthAgeDesc = prometheus.NewDesc("warmpath_worker_health_age_seconds",
		"Time since the facts about a worker's GPUs were known to hold; absent where there were none.", []string{"worker"}, nil)
	healthDoubtedDesc = prometheus.NewDesc("warmpath_worker_health_doubted",
		"1 for a worker that is dead by facts that are not believed.", []string{"worker"}, nil)
	healthExcludedDesc = prometheus.NewDesc("warmpath_health_excluded_total",
		"Ranks left out of choices for the facts about their GPUs.", []string{"reason"}, nil)
	healthOverruledDesc = prometheus.NewDesc("warmpath_health_overruled_total",
		"Choices from which the facts about GPUs would have left out everybody: the least bad rank was used.", nil, nil)
)

// Describe implements prometheus.Collector.
func (c healthCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{healthDesc, healthWeightDesc, healthAgeDesc, healthDoubtedDesc, healthExcludedDesc, healthOverruledDesc} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c healthCollector) Collect(ch chan<- prometheus.Metric) {
	now := time.Now()
	for _, w := range c.workers.Snapshot().Workers {
		h := gpuHealth(w, now)
		for s := worker.GPUUnknown; s <= worker.GPUDead; s++ {
			ch <- prometheus.MustNewConstMetric(healthDesc, prometheus.GaugeValue, oneIf(h.State == s.String()), w.URL, s.String())
		}
		if h.State != worker.GPUUnknown.String() {
			ch <- prometheus.MustNewConstMetric(healthWeightDesc, prometheus.GaugeValue, h.Weight, w.URL)
		}
		if h.Age > 0 {
			ch <- prometheus.MustNewConstMetric(healthAgeDesc, prometheus.GaugeValue, h.Age, w.URL)
		}
		ch <- prometheus.MustNewConstMetric(healthDoubtedDesc, prometheus.GaugeValue, oneIf(h.Doubted), w.URL)
	}
	count := func(reason string, n uint64) {
		ch <- prometheus.MustNewConstMetric(healthExcludedDesc, prometheus.CounterValue, float64(n), reason)
	}
	count("dead", c.passed.Dead.Load())
	count("draining", c.passed.Draining.Load())
	count("no_tp", c.passed.NoTP.Load())
	ch <- prometheus.MustNewConstMetric(healthOverruledDesc, prometheus.CounterValue, float64(c.passed.Overruled.Load()))
}

func oneIf(on bool) float64 {
	if on {
		return 1
	}
	return 0
}
