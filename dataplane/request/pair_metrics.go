package request

import "github.com/prometheus/client_golang/prometheus"

// pairMetrics count requests to pairs.
type pairMetrics struct {
	requests *prometheus.CounterVec // worker, rank
	failures *prometheus.CounterVec // leg, cause
	aborts   *prometheus.CounterVec // leg
	merges   *prometheus.CounterVec // result
	lag      prometheus.Histogram
}

// lagBuckets are finer than latencyBuckets: the lag is one step of the decode worker's batch.
var lagBuckets = []float64{.001, .002, .005, .01, .02, .04, .08, .15, .3, .6, 1, 2, 4, 8, 15, 30}

func newPairMetrics(m *Metrics) *pairMetrics {
	p := &pairMetrics{
		requests: m.counter("pair_requests_total",
			"Answers of pairs by prefill worker; requests_total counts them by decode worker.", "worker", "rank"),
		failures: m.counter("pair_failures_total",
			"Attempts at a pair that failed before the answer began, by the leg at fault and "+
				"the cause; each is tried again elsewhere or ends in an error.",
			"leg", "cause"),
		aborts: m.counter("pair_aborts_total",
			"Legs aborted because the other leg failed or the client left.", "leg"),
		merges: m.counter("pair_merges_total",
			"Answers that got the prompt's log probabilities from the prefill worker's "+
				"(merged), or should have and it had none (missing).", "result"),
		lag: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "warmpath", Name: "pair_lag_seconds", Buckets: lagBuckets,
			Help: "Streams: time from the end of the prefill worker's answer to the first event of the decode worker's.",
		}),
	}
	m.all = append(m.all, p.lag)
	return p
}

// failed counts a failed attempt.
func (p *pairMetrics) failed(at leg, cause string) {
	p.failures.WithLabelValues(at.String(), cause).Inc()
}

// merged counts an answer that was to have the prefill worker's log probabilities.
func (p *pairMetrics) merged(ok bool) {
	result := "merged"
	if !ok {
		result = "missing"
	}
	p.merges.WithLabelValues(result).Inc()
}
