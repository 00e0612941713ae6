package request

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/warmpath/warmpath/dataplane/routing/queue"
)

// QueueStatus is the queue in front of full workers.
type QueueStatus struct {
	Waiting       int     `json:"waiting"`
	Clients       int     `json:"clients"` // that they are of
	OldestSeconds float64 `json:"oldest_seconds"`
	FullModels    int     `json:"full_models"` // whose ranks are, or just were, all full
	Rate          float64 `json:"rate"`        // requests a second that leave the queue for a worker
	Passed        uint64  `json:"passed"`      // requests that waited and were sent
	MeanWait      float64 `json:"mean_wait_seconds"`
	Refused       uint64  `json:"refused"` // with 429
	Gone          uint64  `json:"gone"`    // requests whose client left
}

func (s *Server) queueStatus() *QueueStatus {
	if s.waits == nil {
		return nil
	}
	st := s.waits.Stats()
	out := &QueueStatus{
		Waiting: st.Waiting, Clients: st.Clients, OldestSeconds: st.Oldest.Seconds(), FullModels: st.Models, Rate: st.Rate,
		Passed: st.Passed, Refused: st.RefusedFull + st.RefusedDisplaced + st.RefusedLate, Gone: st.Gone,
	}
	if st.Passed > 0 {
		out.MeanWait = st.Waited.Seconds() / float64(st.Passed)
	}
	return out
}

var (
	descQueueDepth   = desc("queue_depth", "Requests that wait at the router because every rank that could take them is full.")
	descQueueClients = desc("queue_clients", "Clients that they are of.")
	descQueueOldest  = desc("queue_oldest_seconds", "How long the first of them has waited.")
	descQueueRate    = desc("queue_drain_rate", "Requests a second that leave the queue for a worker, of late.")
	descQueueRefused = desc("queue_refused_total", "Requests answered with 429: the queue was full, another had more right to wait (displaced), "+
		"or no rank had room in time (deadline).", "reason")
	descQueueGone = desc("queue_gone_total", "Requests whose client left while they waited.")
)

// queueCollector reads the queue at each scrape.
type queueCollector struct{ gate *queue.Gate }

var _ prometheus.Collector = queueCollector{}

// showQueue adds the queue to /metrics.
func (m *metrics) showQueue(r *waitRoom) {
	waits := prometheus.NewHistogram(prometheus.HistogramOpts{
		Namespace: "warmpath", Name: "queue_wait_seconds", Help: "Time in the queue of requests that were then sent to a worker.", Buckets: ttftBuckets,
	})
	r.waits = waits.Observe
	m.registry.MustRegister(waits, queueCollector{r.Gate})
}

// Describe implements prometheus.Collector.
func (c queueCollector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

// Collect implements prometheus.Collector.
func (c queueCollector) Collect(ch chan<- prometheus.Metric) {
	st := c.gate.Stats()
	gauge := func(d *prometheus.Desc, v float64) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v)
	}
	counter := func(d *prometheus.Desc, v uint64, label ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), label...)
	}
	gauge(descQueueDepth, float64(st.Waiting))
	gauge(descQueueClients, float64(st.Clients))
	gauge(descQueueOldest, st.Oldest.Seconds())
	gauge(descQueueRate, st.Rate)
	counter(descQueueRefused, st.RefusedFull, string(queue.ReasonFull))
	counter(descQueueRefused, st.RefusedDisplaced, string(queue.ReasonDisplaced))
	counter(descQueueRefused, st.RefusedLate, string(queue.ReasonDeadline))
	counter(descQueueGone, st.Gone)
}
