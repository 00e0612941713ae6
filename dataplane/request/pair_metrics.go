package request

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

// pairMetrics are the counters of requests that go to pairs.
type pairMetrics struct {
	requests *prometheus.CounterVec // prefill
	failures *prometheus.CounterVec // leg, cause
	aborts   *prometheus.CounterVec // leg
	merges   *prometheus.CounterVec // result
	lag      prometheus.Observer
}

func newPairMetrics(m *metrics, counter func(name, help string, labels ...string) *prometheus.CounterVec) *pairMetrics {
	lag := prometheus.NewHistogram(prometheus.HistogramOpts{
		Namespace: "warmpath", Name: "pair_lag_seconds", Buckets: lagBuckets,
		Help: "Streams: time from the end of the prefill worker's answer to the first event of the decode worker's.",
	})
	m.registry.MustRegister(lag)
	return &pairMetrics{
		requests: counter("pair_requests_total", "Answers of pairs by prefill worker; requests_total has them by decode worker.", "prefill"),
		failures: counter("pair_failures_total",
			"Attempts at a pair that failed before the answer began, by the leg that is blamed and what it did; each is tried again elsewhere or ends in an error.",
			"leg", "cause"),
		aborts: counter("pair_aborts_total", "Legs told to stop because the other one failed or the client left.", "leg"),
		merges: counter("pair_merges_total",
			"Answers that got the prompt's log probabilities of the prefill worker's (merged), or should have and it had none (missing).", "result"),
		lag: lag,
	}
}

// lagBuckets are finer than ttftBuckets: the lag is one step of the decode worker's batch.
var lagBuckets = []float64{.001, .002, .005, .01, .02, .04, .08, .15, .3, .6, 1, 2, 4, 8, 15, 30}

func (p *pairMetrics) failed(leg, cause string) { p.failures.WithLabelValues(leg, cause).Inc() }

func (p *pairMetrics) merged(ok bool) {
	result := "merged"
	if !ok {
		result = "missing"
	}
	p.merges.WithLabelValues(result).Inc()
}

// passed counts an answer that was the client's without having been forwarded.
func (m *metrics) passed(rank *worker.Rank, status int) {
	m.totals.requests.Add(1)
	m.requests.WithLabelValues(rank.ID(), m.policy(), strconv.Itoa(status)).Inc()
}
