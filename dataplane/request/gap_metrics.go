package request

import (
	"maps"
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

// gapMetrics adds up the gaps of streams that have ended, by model.
type gapMetrics struct {
	mu      sync.Mutex // of writers
	byModel atomic.Pointer[map[string]*gapCounts]
}

// gapCounts are the gaps of one model.
type gapCounts struct {
	n     [len(gapBounds) + 1]atomic.Uint64
	nanos atomic.Uint64
}

var _ prometheus.Collector = (*gapMetrics)(nil)

// add adds the gaps of a stream. model is the worker's name of it: clients
// write any.
func (m *gapMetrics) add(model string, g *gaps) {
	if g.sum == 0 {
		return
	}
	c := m.of(model)
	for i, n := range g.n {
		if n > 0 {
			c.n[i].Add(uint64(n))
		}
	}
	c.nanos.Add(uint64(g.sum))
}

func (m *gapMetrics) known() map[string]*gapCounts {
	if known := m.byModel.Load(); known != nil {
		return *known
	}
	return nil
}

func (m *gapMetrics) of(model string) *gapCounts {
	if c := m.known()[model]; c != nil {
		return c
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	all := map[string]*gapCounts{}
	maps.Copy(all, m.known())
	if all[model] == nil {
		all[model] = &gapCounts{}
	}
	m.byModel.Store(&all)
	return all[model]
}

// sums returns the gaps of all models.
func (m *gapMetrics) sums() history.Histogram {
	h := history.Histogram{Bounds: gapBounds[:], Buckets: make([]uint64, len(gapBounds)+1)}
	for _, c := range m.known() {
		for i := range c.n {
			h.Buckets[i] += c.n[i].Load()
		}
	}
	return h
}

// Describe implements prometheus.Collector.
func (m *gapMetrics) Describe(ch chan<- *prometheus.Desc) { ch <- descGaps }

// Collect implements prometheus.Collector.
func (m *gapMetrics) Collect(ch chan<- prometheus.Metric) {
	for model, c := range m.known() {
		buckets, count := make(map[float64]uint64, len(gapBounds)), uint64(0)
		for i, bound := range gapBounds {
			count += c.n[i].Load()
			buckets[bound] = count
		}
		count += c.n[len(gapBounds)].Load()
		ch <- prometheus.MustNewConstHistogram(descGaps, count, time.Duration(c.nanos.Load()).Seconds(), buckets, model)
	}
}
