package request

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

// BreakerStatus is what a worker's breaker lets through.
type BreakerStatus struct {
	State  string `json:"state"`  // closed, open or half-open
	Faults int    `json:"faults"` // in a row
	Opened uint64 `json:"opened"` // times
}

func breakerStatus(w *worker.Worker, now time.Time) BreakerStatus {
	b := &w.Breaker
	return BreakerStatus{State: b.State(now).String(), Faults: b.Faults(), Opened: b.Opened()}
}

// collectWorker writes what concerns a worker as a whole.
func collectWorker(ch chan<- prometheus.Metric, w *worker.Worker) {
	ch <- prometheus.MustNewConstMetric(descRole, prometheus.GaugeValue, 1, w.URL, w.Role().String())
	ch <- prometheus.MustNewConstMetric(descBreaker, prometheus.GaugeValue, 1, w.URL, w.Breaker.State(time.Now()).String())
	ch <- prometheus.MustNewConstMetric(descOpened, prometheus.CounterValue, float64(w.Breaker.Opened()), w.URL)
}
