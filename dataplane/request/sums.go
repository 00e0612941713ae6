package request

import (
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/admin/history"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

// keepGone is how long the series of a rank that is gone stay: scrapes see the last answers, and a
// worker that is restarted goes on with its counts. Later they are deleted: workers come and go for
// months under new addresses, and each would cost memory and bytes of every scrape.
const keepGone = 15 * time.Minute

// seriesOfRanks is a vector with the labels worker and rank.
type seriesOfRanks interface {
	prometheus.Collector
	DeletePartialMatch(labels prometheus.Labels) int
}

// goneRanks are ranks that have series and are none of the registry's any more.
type goneRanks struct {
	present func() []*worker.Rank // of the registry

	mu    sync.Mutex
	since map[rankLabels]time.Time // guarded by mu
	sums  history.Counts           // of deleted series; guarded by mu
}

// rankLabels name a rank in series.
type rankLabels struct{ worker, rank string }

// Sums adds up the series of all workers, gone ones included, but for the state of the moment. It
// takes as long as a scrape, and like one it holds up no request. It deletes the series of ranks
// that are gone for long.
func (m *Metrics) Sums() history.Counts {
	g := &m.gone
	g.mu.Lock()
	defer g.mu.Unlock()
	present, now := map[rankLabels]bool{}, time.Now()
	for _, rank := range g.present() {
		url, number := rank.Labels()
		present[rankLabels{url, number}] = true
	}
	c, since := g.sums, map[rankLabels]time.Time{}
	m.addRanks(&c, func(of rankLabels) bool {
		if at, known := g.since[of]; known && !present[of] {
			since[of] = at
		} else if !present[of] {
			since[of] = now
		}
		return true
	})
	g.since = since
	m.deleteGone(now)
	c.Requests, c.ITL = m.requestTotal.Load(), m.models.gaps()
	c.TTFT, c.Duration = histogramOf(m.models.ttft), histogramOf(m.models.latency)
	c.GeneratedTokens = totalOf(m.models.generated)
	for _, expected := range m.expected {
		if expected != nil {
			c.ExpectedTokens += totalOf(expected)
		}
	}
	each(m.errors, func(one *dto.Metric) { addFailure(&c, one, history.Router) })
	return c
}

// deleteGone deletes the series of ranks that are gone for long. The caller holds gone.mu.
func (m *Metrics) deleteGone(now time.Time) {
	late := map[rankLabels]bool{}
	for of, at := range m.gone.since {
		if now.Sub(at) >= keepGone {
			late[of] = true
		}
	}
	if len(late) == 0 {
		return
	}
	m.addRanks(&m.gone.sums, func(of rankLabels) bool { return late[of] })
	for of := range late {
		delete(m.gone.since, of)
		for _, vector := range m.byRank {
			vector.DeletePartialMatch(prometheus.Labels{"worker": of.worker, "rank": of.rank})
		}
	}
	m.ranks.forget()
}

// addRanks adds the series of ranks.
func (m *Metrics) addRanks(c *history.Counts, which func(rankLabels) bool) {
	r := m.ranks
	ofRanks := func(vector prometheus.Collector, add func(*dto.Metric)) {
		each(vector, func(one *dto.Metric) {
			if which(rankLabels{label(one, "worker"), label(one, "rank")}) {
				add(one)
			}
		})
	}
	sum := func(vector prometheus.Collector) uint64 {
		total := 0.0
		ofRanks(vector, func(one *dto.Metric) { total += one.GetCounter().GetValue() })
		return uint64(total)
	}
	c.PromptTokens += sum(r.prompt)
	c.HitTokens += sum(r.cached)
	c.Errors[history.Cut] += sum(m.cuts)
	ofRanks(r.requests, func(one *dto.Metric) { addFailure(c, one, history.Worker) })
}

// addFailure counts one series by its status. Those of 5xx count as broken.
func addFailure(c *history.Counts, one *dto.Metric, broken history.Kind) {
	kind := broken
	switch status := statusOf(one); {
	case status >= fasthttp.StatusInternalServerError:
	case status == fasthttp.StatusTooManyRequests:
		kind = history.Busy
	case status == fasthttp.StatusUnauthorized, status == fasthttp.StatusForbidden:
		kind = history.Keys
	case status >= fasthttp.StatusBadRequest:
		kind = history.Client
	default:
		return
	}
	c.Errors[kind] += uint64(one.GetCounter().GetValue())
}

func statusOf(one *dto.Metric) int {
	status, _ := strconv.Atoi(label(one, "status"))
	return status
}

// label returns the value of a label; "" without one.
func label(one *dto.Metric, name string) string {
	for _, l := range one.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

// totalOf adds up the counters of a collector.
func totalOf(c prometheus.Collector) uint64 {
	total := 0.0
	each(c, func(one *dto.Metric) { total += one.GetCounter().GetValue() })
	return uint64(total)
}

// histogramOf adds up the series of a histogram.
func histogramOf(vector *prometheus.HistogramVec) history.Histogram {
	h := history.Histogram{Bounds: latencyBuckets, Buckets: make([]uint64, len(latencyBuckets)+1)}
	each(vector, func(one *dto.Metric) {
		below := uint64(0) // the series' own counts are cumulative
		for i, b := range one.GetHistogram().GetBucket() {
			h.Buckets[i] += b.GetCumulativeCount() - below
			below = b.GetCumulativeCount()
		}
		h.Buckets[len(latencyBuckets)] += one.GetHistogram().GetSampleCount() - below
	})
	return h
}

// each reads the series of a collector.
func each(c prometheus.Collector, read func(*dto.Metric)) {
	series := make(chan prometheus.Metric, 64)
	go func() {
		defer close(series)
		c.Collect(series)
	}()
	for one := range series {
		var value dto.Metric
		if one.Write(&value) == nil {
			read(&value)
		}
	}
}
