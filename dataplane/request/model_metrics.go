package request

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/warmpath/warmpath/dataplane/admin/history"
)

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
