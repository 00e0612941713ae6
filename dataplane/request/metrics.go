package request

import (
	"regexp"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/routing"
)

// hitShare is the share of the expected overlap from which an answer counts as
// a hit of the prediction.
const hitShare = 0.8

// metrics are the request path's counters. What belongs to workers, streams
// and the index is read from them at each scrape; see collect.go.
type metrics struct {
	registry      *prometheus.Registry
	requests      *prometheus.CounterVec // worker, policy, status
	prompt        *prometheus.CounterVec // worker
	cached        *prometheus.CounterVec // worker
	expected      *prometheus.CounterVec // worker, source
	overlap       [routing.Answers + 1][len(overlapResults)]prometheus.Counter
	ttft          *prometheus.HistogramVec
	latency       *prometheus.HistogramVec
	errors        *prometheus.CounterVec // status of our own error answers
	retries       prometheus.Counter
	clientGone    prometheus.Counter
	aborts        prometheus.Counter
	abortsDropped prometheus.Counter
	refused       prometheus.Counter
	cut           *prometheus.CounterVec // worker
	policy        func() string          // of the router, now

	pairs  *pairMetrics
	fetch  fetchMetrics
	ranks  rankSeries
	totals totals
}

// ttftBuckets reach from a decode step to the longest queue that someone
// waits in, by factors of about two.
var ttftBuckets = []float64{.005, .01, .02, .04, .08, .15, .3, .6, 1, 2, 4, 8, 15, 30, 60, 120, 300, 600}

func newMetrics(s *Server) *metrics {
	m := &metrics{registry: prometheus.NewRegistry(), policy: func() string { return s.Router.Policy().Name() }}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "warmpath", Name: name, Help: help}, labels)
		m.registry.MustRegister(c)
		return c
	}
	histogram := func(name, help string) *prometheus.HistogramVec {
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "warmpath", Name: name, Help: help, Buckets: ttftBuckets,
		}, []string{"worker"})
		m.registry.MustRegister(h)
		return h
	}
	m.requests = counter("requests_total", "Answers by worker, policy and HTTP status.", "worker", "policy", "status")
	m.prompt = counter("prompt_tokens_total", "Prompt tokens of answers that reported usage.", "worker")
	m.cached = counter("hit_tokens_total", "Prompt tokens that the worker reported as cached.", "worker")
	m.expected = counter("expected_hit_tokens_total", "Prompt tokens that the router expected to be cached, of the same answers.", "worker", "source")
	m.countOverlaps(counter("overlap_predictions_total",
		"Expected against reported overlap: exact, hit (at least 0.8 of the expected) or miss; by where the expectation came from.",
		"source", "result"))
	m.errors = counter("errors_total", "Requests that the router answered with an error of its own, by HTTP status.", "status")
	m.cut = counter("answers_cut_total", "Answers that a worker broke off after they had begun.", "worker")
	m.ttft = histogram("ttft_seconds", "Time from the request to the first byte of the answer's body.")
	m.latency = histogram("request_seconds", "Time from the request to the end of the answer.")
	m.retries = counter("retries_total", "Requests sent to another worker before their answer began.").WithLabelValues()
	m.clientGone = counter("client_gone_total", "Clients that left before the end of their answer.").WithLabelValues()
	m.aborts = counter("aborts_total", "Requests aborted at a worker because their client left.").WithLabelValues()
	m.abortsDropped = counter("aborts_dropped_total", "Aborts not sent because too many were under way.").WithLabelValues()
	m.pairs = newPairMetrics(m, counter)
	m.fetch = newFetchMetrics(counter)
	m.refused = counter("tls_refused_total", "Clients whose TLS handshake failed.").WithLabelValues()
	m.registry.MustRegister(
		newGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), &collector{s: s}, fleetCollector{s}, budgetCollector{s.Index},
		trustCollector{s.Registry}, healthCollector{s.Registry, &s.Router.Passed})
	registerQuarantine(m.registry, s.ward)
	m.registry.MustRegister(s.Metrics...)
	if s.Replicas != nil {
		m.registry.MustRegister(replicaCollector{s.Replicas})
	}
	if s.Cluster != nil {
		m.registry.MustRegister(clusterCollector{s})
	}
	if s.Sessions != nil {
		m.registry.MustRegister(sessionCollector{s.Sessions})
	}
	if s.HugeBytes != nil {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: "warmpath", Name: "huge_page_bytes", Help: "Memory of the process that is in huge pages, half a minute ago at most.",
		}, func() float64 { return float64(s.HugeBytes()) }))
	}
	return m
}

// newGoCollector tells of the runtime what it does by default, and what the collector's last run has found in use.
func newGoCollector() prometheus.Collector {
	live := collectors.GoRuntimeMetricsRule{Matcher: regexp.MustCompile("^/gc/heap/live:bytes$")}
	return collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(live))
}

// failed counts an error answer of the router's own.
func (m *metrics) failed(status int) {
	m.totals.requests.Add(1)
	m.totals.errors.Add(1)
	m.errors.WithLabelValues(strconv.Itoa(status)).Inc()
}

// broken counts an answer that a worker broke off.
func (m *metrics) broken(rank *worker.Rank) {
	m.totals.errors.Add(1)
	m.cut.WithLabelValues(rank.ID()).Inc()
}

// answered counts a forwarded answer that has ended.
func (m *metrics) answered(e *exchange, usage openai.Usage, now time.Time, err error) {
	id := e.answering().ID()
	rank := m.of(id)
	m.totals.requests.Add(1)
	if e.status == fasthttp.StatusOK {
		rank.ok.Inc()
	} else {
		m.requests.WithLabelValues(id, m.policy(), strconv.Itoa(e.status)).Inc()
	}
	if e.decision.Decode != nil {
		m.pairs.requests.WithLabelValues(e.decision.Rank.ID()).Inc()
	}
	if !e.inferred {
		return
	}
	if err != nil && e.client.Gone() {
		m.clientGone.Inc()
	}
	rank.ttft.Observe(e.firstAt.Sub(e.started).Seconds())
	rank.latency.Observe(now.Sub(e.started).Seconds())
	if err != nil || !usage.HasCached || !usage.HasPrompt {
		return
	}
	if e.decision.Decode != nil { // what it says of the cache is the prefill worker's
		rank = m.of(e.decision.Rank.ID())
	}
	rank.prompt.Add(float64(usage.PromptTokens))
	rank.cached.Add(float64(usage.CachedTokens))
	count := &e.decision.Rank.Count
	count.PromptTokens.Add(uint64(usage.PromptTokens))
	count.CachedTokens.Add(uint64(usage.CachedTokens))
	count.Stored.Add(uint64(e.stored(usage)))
	if e.req.N <= 1 {
		m.fetch.answered(e.decision.Rank.ID(), &e.decision, usage.CachedTokens)
	}
	if d := &e.decision; d.Source != routing.Nothing {
		expected := d.Cached
		if !d.Exact && d.PromptTokens > 0 { // both were estimated: their ratio is better than either
			expected = int(float64(d.Cached) / float64(d.PromptTokens) * float64(usage.PromptTokens))
		}
		rank.expected[d.Source].Add(float64(expected))
		m.compare(d.Source, expected, usage.CachedTokens)
		if e.req.N <= 1 { // each of n answers finds the prompt of the one before
			d.Rank.Trust.Observe(now, expected, usage.CachedTokens)
		}
	}
}

// compare counts how good the prediction of the overlap was.
func (m *metrics) compare(source routing.Source, expected, actual int) {
	t := &m.totals.exact
	if source == routing.Answers {
		t = &m.totals.approximate
	}
	t.compared.Add(1)
	result := overlapMiss
	switch {
	case expected == actual:
		result = overlapExact
	case float64(actual) >= hitShare*float64(expected):
		result = overlapHit
	}
	if result != overlapMiss {
		t.accurate.Add(1)
	}
	m.overlap[source][result].Inc()
}
