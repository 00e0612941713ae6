package request

import (
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/admin/history"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/ingress"
	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/routing"
)

// Metrics counts requests. It is a prometheus.Collector, which package admin serves together with
// the state of the router's other parts.
type Metrics struct {
	all    []prometheus.Collector // of the fields below
	byRank []seriesOfRanks        // of all
	gone   goneRanks

	ranks  *rankMetrics
	models *modelMetrics

	pairRequests *prometheus.CounterVec // worker, rank
	pairFailures *prometheus.CounterVec // leg, cause
	pairAborts   *prometheus.CounterVec // leg
	pairMerges   *prometheus.CounterVec // result
	pairLag      prometheus.Histogram

	// Expected against reported overlap, by the source of the expectation.
	overlaps      [routing.Answers + 1][len(overlapResults)]prometheus.Counter
	overlapTotals [routing.Answers + 1][len(overlapResults)]atomic.Uint64
	expected      [routing.Answers + 1]prometheus.Counter // by source; nil for Nothing
	fetchExpected *prometheus.CounterVec                  // from
	fetchedTokens prometheus.Counter

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

func newMetrics(registry *worker.Registry, queued bool) *Metrics {
	m := &Metrics{gone: goneRanks{present: func() []*worker.Rank { return registry.Snapshot().Ranks }}}
	m.ranks, m.models = newRankMetrics(m), newModelMetrics(m)
	m.countOverlap()
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
	m.countPairs()
	m.queueWait = prometheus.NewHistogram(prometheus.HistogramOpts{
		Namespace: "warmpath", Name: "queue_wait_seconds", Buckets: latencyBuckets,
		Help: "Time in the queue of requests that were then sent to a worker.",
	})
	if queued {
		m.all = append(m.all, m.queueWait)
	}
	return m
}

// countPairs adds the metrics of requests to pairs.
func (m *Metrics) countPairs() {
	m.pairRequests = m.counter("pair_requests_total",
		"Answers of pairs by prefill worker; requests_total counts them by decode worker.", "worker", "rank")
	m.pairFailures = m.counter("pair_failures_total",
		"Attempts at a pair that failed before the answer began, by the leg at fault and "+
			"the cause; each is tried again elsewhere or ends in an error.",
		"leg", "cause")
	m.pairAborts = m.counter("pair_aborts_total",
		"Legs aborted because the other leg failed or the client left.", "leg")
	m.pairMerges = m.counter("pair_merges_total",
		"Answers that got the prompt's log probabilities from the prefill worker's "+
			"(merged), or should have and it had none (missing).", "result")
	m.pairLag = prometheus.NewHistogram(prometheus.HistogramOpts{
		Namespace: "warmpath", Name: "pair_lag_seconds", Buckets: lagBuckets,
		Help: "Streams: time from the end of the prefill worker's answer to the first event of the decode worker's.",
	})
	m.all = append(m.all, m.pairLag)
}

// countOverlap adds the metrics that compare the overlap that a choice expected with the cached
// tokens that the answer reports.
func (m *Metrics) countOverlap() {
	results := m.counter("overlap_predictions_total",
		"Expected against reported overlap: exact, hit (at least 0.8 of the expected) or miss; "+
			"by the source of the expectation.",
		"source", "result")
	m.fetchExpected = m.counter("expected_fetch_tokens_total",
		"Prompt tokens that the router expected the worker to fetch, from its node's KV tier or through that from a peer's, "+
			"of answers that reported usage.", "from")
	m.fetchedTokens = m.counter("fetched_tokens_total",
		"Of the expected_fetch_tokens_total, those that the worker reported as cached "+
			"beyond its own expected overlap.").WithLabelValues()
	expected := m.counter("expected_hit_tokens_total",
		"Prompt tokens that the router expected to be cached, of the answers that prompt_tokens_total counts.", "source")
	for _, source := range []routing.Source{routing.Events, routing.Answers} {
		m.expected[source] = expected.WithLabelValues(source.String())
		for i, result := range overlapResults {
			m.overlaps[source][i] = results.WithLabelValues(source.String(), result)
		}
	}
}

// counter adds a counter.
func (m *Metrics) counter(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "warmpath", Name: name, Help: help}, labels)
	m.all = append(m.all, c)
	if slices.Contains(labels, "worker") {
		m.byRank = append(m.byRank, c)
	}
	return c
}

// histogram adds a histogram by model.
func (m *Metrics) histogram(name, help string) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: "warmpath", Name: name, Help: help, Buckets: latencyBuckets,
	}, []string{"model"})
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
		Exact: m.compared(routing.Events), Approximate: m.compared(routing.Answers),
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
		m.pairRequests.WithLabelValues(d.Rank.Labels()).Inc()
	}
	if !x.inference {
		return
	}
	if err != nil && clientFailed(x.client, err) {
		m.clientGone.Inc()
	}
	if info := rank.Worker.Info(); info != nil {
		model := m.models.of(info.Model())
		model.ttft.Observe(x.answer.firstAt.Sub(x.started).Seconds())
		model.latency.Observe(now.Sub(x.started).Seconds())
		model.generated.Add(float64(usage.CompletionTokens))
		model.gaps.add(&x.answer.gaps)
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
		m.fetched(d, usage.CachedTokens)
	}
	if d.Source == routing.Unknown || x.prompt.several() {
		return
	}
	expected := d.Cached
	if !d.Exact && d.PromptTokens > 0 { // both are estimates: their ratio is better than either
		expected = int(float64(d.Cached) / float64(d.PromptTokens) * float64(usage.PromptTokens))
	}
	m.expected[d.Source].Add(float64(expected))
	m.compare(d.Source, expected, usage.CachedTokens)
	if single {
		d.Rank.Trust.Observe(now, expected, usage.CachedTokens)
	}
}

// rankMetrics count answers by rank. A series is found by its rank's id and not by its labels: a
// look-up by labels costs more than to count. At 1,000 ranks each series here is some 80 KB of a
// scrape: times are counted by model.
type rankMetrics struct {
	requests *prometheus.CounterVec // worker, rank, status
	prompt   *prometheus.CounterVec // worker, rank
	cached   *prometheus.CounterVec // worker, rank

	mu   sync.Mutex // of writers
	byID atomic.Pointer[map[string]*rankSeries]
}

// rankSeries are the series of one rank.
type rankSeries struct {
	ok             prometheus.Counter // requests with status 200
	prompt, cached prometheus.Counter
}

func newRankMetrics(m *Metrics) *rankMetrics {
	return &rankMetrics{
		requests: m.counter("requests_total", "Answers by worker and HTTP status.", "worker", "rank", "status"),
		prompt: m.counter("prompt_tokens_total",
			"Prompt tokens of answers that reported usage.", "worker", "rank"),
		cached: m.counter("hit_tokens_total",
			"Prompt tokens that the worker reported as cached.", "worker", "rank"),
	}
}

// request counts an answer of a rank.
func (r *rankMetrics) request(of *worker.Rank, status int) {
	url, rank := of.Labels()
	r.requests.WithLabelValues(url, rank, strconv.Itoa(status)).Inc()
}

// of returns the series of a rank. They exist from its first answer on, as in the vectors.
func (r *rankMetrics) of(rank *worker.Rank) *rankSeries {
	return seriesOf(&r.mu, &r.byID, rank.ID(), func() *rankSeries {
		url, number := rank.Labels()
		return &rankSeries{
			ok:     r.requests.WithLabelValues(url, number, strconv.Itoa(fasthttp.StatusOK)),
			prompt: r.prompt.WithLabelValues(url, number), cached: r.cached.WithLabelValues(url, number),
		}
	})
}

// forget has series looked up anew by their labels.
func (r *rankMetrics) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.byID.Store(nil)
}

// seriesOf returns the series of a key, and makes them at its first use. Readers of all share one
// map, which writers, under mu, replace.
func seriesOf[S any](mu *sync.Mutex, all *atomic.Pointer[map[string]*S], key string, fresh func() *S) *S {
	if known := all.Load(); known != nil {
		if s := (*known)[key]; s != nil {
			return s
		}
	}
	mu.Lock()
	defer mu.Unlock()
	more := make(map[string]*S)
	if known := all.Load(); known != nil {
		maps.Copy(more, *known)
	}
	if more[key] == nil {
		more[key] = fresh()
	}
	all.Store(&more)
	return more[key]
}

// lagBuckets are finer than latencyBuckets: the lag is one step of the decode worker's batch.
var lagBuckets = []float64{.001, .002, .005, .01, .02, .04, .08, .15, .3, .6, 1, 2, 4, 8, 15, 30}

// hitShare is the share of the expected overlap from which an answer counts as a hit.
const hitShare = 0.8

// Results of a comparison of expected with reported overlap.
const (
	overlapExact = iota
	overlapHit   // at least hitShare of it
	overlapMiss
)

var overlapResults = [...]string{overlapExact: "exact", overlapHit: "hit", overlapMiss: "miss"}

// compare counts one comparison.
func (m *Metrics) compare(source routing.Source, expected, reported int) {
	result := overlapMiss
	switch {
	case expected == reported:
		result = overlapExact
	case float64(reported) >= hitShare*float64(expected):
		result = overlapHit
	}
	m.overlapTotals[source][result].Add(1)
	m.overlaps[source][result].Inc()
}

// compared returns the comparisons of a source.
func (m *Metrics) compared(source routing.Source) Comparison {
	totals := &m.overlapTotals[source]
	accurate := totals[overlapExact].Load() + totals[overlapHit].Load()
	return Comparison{Compared: accurate + totals[overlapMiss].Load(), Accurate: accurate}
}

// fetched compares the tokens that were to be fetched from KV tiers with an answer's cached tokens.
func (m *Metrics) fetched(d *routing.Decision, cached int) {
	f := &d.Fetch
	if f.Tokens() == 0 {
		return
	}
	m.fetchExpected.WithLabelValues("tier").Add(float64(f.Tier))
	m.fetchExpected.WithLabelValues("peer").Add(float64(f.Remote))
	m.fetchedTokens.Add(float64(d.FetchedOf(cached)))
}

// gapBounds are in seconds, around the steps of a decode batch, up to one that waits for a long
// prefill.
var gapBounds = [...]float64{.002, .005, .01, .015, .02, .03, .04, .06, .08, .1, .15, .2, .3, .5, 1, 2, 5}

// sameStep is far below any step of a decode batch. A piece that comes sooner is of the same one:
// the first token behind its role, or the end of the stream behind the last token.
const sameStep = 500 * time.Microsecond

// gaps are the times between the pieces of one stream: an event costs no atomic operation.
type gaps struct {
	last time.Time
	n    [len(gapBounds) + 1]uint32
	sum  time.Duration
}

// piece counts the time since the last piece.
func (g *gaps) piece(now time.Time) {
	gap := now.Sub(g.last)
	first := g.last.IsZero()
	g.last = now
	if first || gap < sameStep {
		return
	}
	i, seconds := 0, gap.Seconds()
	for i < len(gapBounds) && seconds > gapBounds[i] {
		i++
	}
	g.n[i]++
	g.sum += gap
}

var descGaps = prometheus.NewDesc("warmpath_inter_token_latency_seconds",
	"Streams: time between two arrivals of tokens from the worker, by the model that it serves.", []string{"model"}, nil)

// modelMetrics time the answers of each model, by the worker's name of it: clients write any.
type modelMetrics struct {
	ttft, latency *prometheus.HistogramVec // model
	generated     *prometheus.CounterVec   // model

	mu      sync.Mutex // of writers
	byModel atomic.Pointer[map[string]*modelSeries]
}

// modelSeries are the series of one model.
type modelSeries struct {
	ttft, latency prometheus.Observer
	generated     prometheus.Counter
	gaps          gapCounts // of streams that have ended
}

// gapCounts are the gaps of one model.
type gapCounts struct {
	n     [len(gapBounds) + 1]atomic.Uint64
	nanos atomic.Uint64
}

var _ prometheus.Collector = (*modelMetrics)(nil)

// newModelMetrics adds the series of models to m.
func newModelMetrics(m *Metrics) *modelMetrics {
	models := &modelMetrics{
		ttft: m.histogram("ttft_seconds",
			"Time from the request to the first byte of the answer's body, by the model that the worker serves."),
		latency: m.histogram("request_seconds",
			"Time from the request to the end of the answer, by the model that the worker serves."),
		generated: m.counter("generation_tokens_total",
			"Generated tokens that answers reported, by the model that the worker serves; streams report them "+
				"where the client asks for usage.", "model"),
	}
	m.all = append(m.all, models)
	return models
}

// of returns the series of a model.
func (m *modelMetrics) of(model string) *modelSeries {
	return seriesOf(&m.mu, &m.byModel, model, func() *modelSeries {
		return &modelSeries{
			ttft: m.ttft.WithLabelValues(model), latency: m.latency.WithLabelValues(model), generated: m.generated.WithLabelValues(model),
		}
	})
}

// add adds the gaps of a stream.
func (c *gapCounts) add(g *gaps) {
	if g.sum == 0 {
		return
	}
	for i, n := range g.n {
		if n > 0 {
			c.n[i].Add(uint64(n))
		}
	}
	c.nanos.Add(uint64(g.sum))
}

func (m *modelMetrics) known() map[string]*modelSeries {
	if known := m.byModel.Load(); known != nil {
		return *known
	}
	return nil
}

// gaps returns those of all models.
func (m *modelMetrics) gaps() history.Histogram {
	h := history.Histogram{Bounds: gapBounds[:], Buckets: make([]uint64, len(gapBounds)+1)}
	for _, s := range m.known() {
		for i := range s.gaps.n {
			h.Buckets[i] += s.gaps.n[i].Load()
		}
	}
	return h
}

// Describe implements prometheus.Collector.
func (m *modelMetrics) Describe(ch chan<- *prometheus.Desc) { ch <- descGaps }

// Collect implements prometheus.Collector. A model whose streams had no gap has none of it.
func (m *modelMetrics) Collect(ch chan<- prometheus.Metric) {
	for model, s := range m.known() {
		c := &s.gaps
		if c.nanos.Load() == 0 {
			continue
		}
		buckets, count := make(map[float64]uint64, len(gapBounds)), uint64(0)
		for i, bound := range gapBounds {
			count += c.n[i].Load()
			buckets[bound] = count
		}
		count += c.n[len(gapBounds)].Load()
		ch <- prometheus.MustNewConstHistogram(descGaps, count, time.Duration(c.nanos.Load()).Seconds(), buckets, model)
	}
}
