package request

import (
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/ingress"
	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/routing"
)

// Metrics counts requests. It is a prometheus.Collector, which package admin serves together with
// the state of the router's other parts.
type Metrics struct {
	all []prometheus.Collector // of the fields below

	ranks   *rankMetrics
	pairs   *pairMetrics
	overlap *overlapMetrics
	gaps    gapMetrics

	errors        *prometheus.CounterVec // status
	cuts          *prometheus.CounterVec // worker, rank
	retries       prometheus.Counter
	clientGone    prometheus.Counter
	aborts        prometheus.Counter
	abortsDropped prometheus.Counter
	tlsRefused    prometheus.Counter
	clientsClosed map[ingress.Reason]prometheus.Counter
	queueWait     prometheus.Histogram // registered only where there is a queue

	requestTotal, errorTotal, clientErrorTotal atomic.Uint64
}

var _ prometheus.Collector = (*Metrics)(nil)

// Totals are the counts of all workers together.
type Totals struct {
	Requests uint64
	// Errors are answers of 429 or 5xx, and answers that were cut; ClientErrors are mistakes of
	// clients: all other answers of 4xx.
	Errors, ClientErrors uint64
	// Of expected with reported overlap, by the source of the expectation.
	Exact, Approximate Comparison
}

// Comparison counts answers with an expected and a reported overlap, and those of them that were at
// least a hit.
type Comparison struct{ Compared, Accurate uint64 }

// latencyBuckets reach from a decode step to the longest wait in a queue, by factors of about two.
var latencyBuckets = []float64{.005, .01, .02, .04, .08, .15, .3, .6, 1, 2, 4, 8, 15, 30, 60, 120, 300, 600}

func newMetrics(router *routing.Router, queued bool) *Metrics {
	m := &Metrics{}
	m.ranks = newRankMetrics(m, func() string { return router.Policy().Name() })
	m.overlap = newOverlapMetrics(m)
	m.errors = m.counter("errors_total",
		"Requests that the router answered with an error of its own, by HTTP status and reason.", "status", "reason")
	m.cuts = m.counter("answers_cut_total",
		"Answers that a worker broke off after they had begun.", "worker", "rank")
	m.retries = m.counter("retries_total",
		"Requests sent to another worker before their answer began.").WithLabelValues()
	m.clientGone = m.counter("client_gone_total",
		"Clients that left before the end of their answer.").WithLabelValues()
	m.aborts = m.counter("aborts_total",
		"Requests aborted at a worker because their client left.").WithLabelValues()
	m.abortsDropped = m.counter("aborts_dropped_total",
		"Aborts not sent because too many were under way.").WithLabelValues()
	m.tlsRefused = m.counter("tls_refused_total",
		"Clients whose TLS handshake failed.").WithLabelValues()
	closed := m.counter("client_connections_closed_total",
		"Connections of clients that the router closed, by reason.", "reason")
	m.clientsClosed = make(map[ingress.Reason]prometheus.Counter)
	for _, reason := range ingress.Reasons() {
		m.clientsClosed[reason] = closed.WithLabelValues(string(reason))
	}
	m.pairs = newPairMetrics(m)
	m.all = append(m.all, &m.gaps)
	m.queueWait = prometheus.NewHistogram(prometheus.HistogramOpts{
		Namespace: "warmpath", Name: "queue_wait_seconds", Buckets: latencyBuckets,
		Help: "Time in the queue of requests that were then sent to a worker.",
	})
	if queued {
		m.all = append(m.all, m.queueWait)
	}
	return m
}

// counter adds a counter.
func (m *Metrics) counter(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "warmpath", Name: name, Help: help}, labels)
	m.all = append(m.all, c)
	return c
}

// histogram adds a histogram by rank.
func (m *Metrics) histogram(name, help string) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: "warmpath", Name: name, Help: help, Buckets: latencyBuckets,
	}, []string{"worker", "rank"})
	m.all = append(m.all, h)
	return h
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range m.all {
		c.Describe(ch)
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	for _, c := range m.all {
		c.Collect(ch)
	}
}

// Totals returns the counts of all workers together.
func (m *Metrics) Totals() Totals {
	return Totals{
		Requests: m.requestTotal.Load(), Errors: m.errorTotal.Load(), ClientErrors: m.clientErrorTotal.Load(),
		Exact: m.overlap.exact.counts(), Approximate: m.overlap.approximate.counts(),
	}
}

// closed counts a connection of a client that the router closed.
func (m *Metrics) closed(reason ingress.Reason) { m.clientsClosed[reason].Inc() }

// ended counts a request by the status of its answer.
func (m *Metrics) ended(status int) {
	m.requestTotal.Add(1)
	switch {
	case status >= fasthttp.StatusInternalServerError || status == fasthttp.StatusTooManyRequests:
		m.errorTotal.Add(1)
	case status >= fasthttp.StatusBadRequest:
		m.clientErrorTotal.Add(1)
	}
}

// failed counts an error answer of the router's own.
func (m *Metrics) failed(e *openai.Error) {
	m.ended(e.Status)
	m.errors.WithLabelValues(strconv.Itoa(e.Status), e.Cause()).Inc()
}

// passed counts a worker's error answer that was kept while other workers were asked.
func (m *Metrics) passed(rank *worker.Rank, status int) {
	m.ended(status)
	m.ranks.request(rank, status)
}

// cut counts an answer that a worker broke off.
func (m *Metrics) cut(rank *worker.Rank) {
	m.errorTotal.Add(1)
	m.cuts.WithLabelValues(rank.Labels()).Inc()
}

// answered counts a forwarded answer that has ended; err is why it was cut.
func (m *Metrics) answered(x *exchange, usage openai.Usage, now time.Time, err error) {
	rank, d := x.choice.answering(), &x.choice.decision
	series := m.ranks.of(rank)
	m.ended(x.answer.status)
	if x.answer.status == fasthttp.StatusOK {
		series.ok.Inc()
	} else {
		m.ranks.request(rank, x.answer.status)
	}
	if d.Decode != nil {
		m.pairs.requests.WithLabelValues(d.Rank.Labels()).Inc()
	}
	if !x.inference {
		return
	}
	if err != nil && clientFailed(x.client, err) {
		m.clientGone.Inc()
	}
	series.ttft.Observe(x.answer.firstAt.Sub(x.started).Seconds())
	series.latency.Observe(now.Sub(x.started).Seconds())
	series.generated.Add(float64(usage.CompletionTokens))
	if info := rank.Worker.Info(); info != nil {
		m.gaps.add(info.Model(), &x.answer.gaps)
	}
	if err != nil || !usage.HasCached || !usage.HasPrompt {
		return
	}
	if d.Decode != nil { // the cached tokens are the prefill worker's
		series = m.ranks.of(d.Rank)
	}
	series.prompt.Add(float64(usage.PromptTokens))
	series.cached.Add(float64(usage.CachedTokens))
	count := &d.Rank.Count
	count.PromptTokens.Add(uint64(usage.PromptTokens))
	count.CachedTokens.Add(uint64(usage.CachedTokens))
	count.Stored.Add(uint64(x.answer.stored(usage)))
	// Each of n answers finds the prompt of the one before.
	single := x.req.N <= 1 && !x.prompt.several()
	if single {
		m.overlap.fetched(d, usage.CachedTokens)
	}
	if d.Source == routing.Unknown || x.prompt.several() {
		return
	}
	expected := d.Cached
	if !d.Exact && d.PromptTokens > 0 { // both are estimates: their ratio is better than either
		expected = int(float64(d.Cached) / float64(d.PromptTokens) * float64(usage.PromptTokens))
	}
	series.expected[d.Source].Add(float64(expected))
	m.overlap.compare(d.Source, expected, usage.CachedTokens)
	if single {
		d.Rank.Trust.Observe(now, expected, usage.CachedTokens)
	}
}
