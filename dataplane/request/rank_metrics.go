package request

import (
	"maps"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/routing"
)

// rankMetrics count answers by rank. A series is found by its rank's id and not by its labels: a
// look-up by labels costs more than to count, and an answer counts in seven series.
type rankMetrics struct {
	requests *prometheus.CounterVec // worker, rank, policy, status
	prompt   *prometheus.CounterVec // worker, rank
	cached   *prometheus.CounterVec // worker, rank
	expected *prometheus.CounterVec // worker, rank, source
	output   *prometheus.CounterVec // worker, rank
	ttft     *prometheus.HistogramVec
	latency  *prometheus.HistogramVec
	policy   func() string // the name of the policy in force

	mu   sync.Mutex // of writers
	byID atomic.Pointer[map[string]*rankSeries]
}

// rankSeries are the series of one rank.
type rankSeries struct {
	ok       prometheus.Counter // requests with status 200
	prompt   prometheus.Counter
	cached   prometheus.Counter
	expected [routing.Answers + 1]prometheus.Counter // by source; nil for Nothing
	ttft     prometheus.Observer
	latency  prometheus.Observer

	generated prometheus.Counter
}

func newRankMetrics(m *Metrics, policy func() string) *rankMetrics {
	return &rankMetrics{
		policy: policy,
		requests: m.counter("requests_total",
			"Answers by worker, policy and HTTP status.", "worker", "rank", "policy", "status"),
		prompt: m.counter("prompt_tokens_total",
			"Prompt tokens of answers that reported usage.", "worker", "rank"),
		cached: m.counter("hit_tokens_total",
			"Prompt tokens that the worker reported as cached.", "worker", "rank"),
		expected: m.counter("expected_hit_tokens_total",
			"Prompt tokens that the router expected to be cached, of the same answers.", "worker", "rank", "source"),
		output: m.counter("generation_tokens_total",
			"Generated tokens that answers reported; streams report them where the client asks for usage.", "worker", "rank"),
		ttft: m.histogram("ttft_seconds",
			"Time from the request to the first byte of the answer's body."),
		latency: m.histogram("request_seconds", "Time from the request to the end of the answer."),
	}
}

// request counts an answer of a rank.
func (r *rankMetrics) request(of *worker.Rank, status int) {
	url, rank := of.Labels()
	r.requests.WithLabelValues(url, rank, r.policy(), strconv.Itoa(status)).Inc()
}

// of returns the series of a rank. They exist from its first answer on, as in the vectors.
func (r *rankMetrics) of(rank *worker.Rank) *rankSeries {
	id := rank.ID()
	if known := r.byID.Load(); known != nil {
		if s := (*known)[id]; s != nil {
			return s
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make(map[string]*rankSeries)
	if known := r.byID.Load(); known != nil {
		maps.Copy(all, *known)
	}
	if all[id] == nil {
		all[id] = r.newSeries(rank)
	}
	r.byID.Store(&all)
	return all[id]
}

func (r *rankMetrics) newSeries(of *worker.Rank) *rankSeries {
	url, rank := of.Labels()
	s := &rankSeries{
		ok:     r.requests.WithLabelValues(url, rank, r.policy(), strconv.Itoa(fasthttp.StatusOK)),
		prompt: r.prompt.WithLabelValues(url, rank), cached: r.cached.WithLabelValues(url, rank),
		ttft: r.ttft.WithLabelValues(url, rank), latency: r.latency.WithLabelValues(url, rank),
		generated: r.output.WithLabelValues(url, rank),
	}
	for _, source := range []routing.Source{routing.Events, routing.Answers} {
		s.expected[source] = r.expected.WithLabelValues(url, rank, source.String())
	}
	return s
}

// policyChanged makes answers count under the name of the new policy.
func (r *rankMetrics) policyChanged() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.byID.Store(nil)
}
