package request

import (
	"maps"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/routing"
)

// rankMetrics are the series of one rank. Finding one by its labels costs
// more than counting, and an answer counts in seven.
type rankMetrics struct {
	ok       prometheus.Counter // requests with status 200
	prompt   prometheus.Counter
	cached   prometheus.Counter
	expected [routing.Answers + 1]prometheus.Counter // by source; nil for Nothing
	ttft     prometheus.Observer
	latency  prometheus.Observer
}

// rankSeries finds the series of a rank by its id. There is one for each rank
// that ever answered, as in the vectors themselves.
type rankSeries struct {
	mu   sync.Mutex // of writers
	byID atomic.Pointer[map[string]*rankMetrics]
}

// of returns the series of a rank.
func (m *metrics) of(id string) *rankMetrics {
	if known := m.ranks.byID.Load(); known != nil {
		if r := (*known)[id]; r != nil {
			return r
		}
	}
	m.ranks.mu.Lock()
	defer m.ranks.mu.Unlock()
	all := make(map[string]*rankMetrics)
	if known := m.ranks.byID.Load(); known != nil {
		maps.Copy(all, *known)
	}
	if all[id] == nil {
		all[id] = m.newRank(id)
	}
	m.ranks.byID.Store(&all)
	return all[id]
}

func (m *metrics) newRank(id string) *rankMetrics {
	r := &rankMetrics{
		ok:     m.requests.WithLabelValues(id, m.policy(), strconv.Itoa(fasthttp.StatusOK)),
		prompt: m.prompt.WithLabelValues(id), cached: m.cached.WithLabelValues(id),
		ttft: m.ttft.WithLabelValues(id), latency: m.latency.WithLabelValues(id),
	}
	for _, s := range []routing.Source{routing.Events, routing.Answers} {
		r.expected[s] = m.expected.WithLabelValues(id, s.String())
	}
	return r
}

// How an expected overlap compares with the reported one.
const (
	overlapExact = iota
	overlapHit   // at least hitShare of it
	overlapMiss
)

var overlapResults = [...]string{overlapExact: "exact", overlapHit: "hit", overlapMiss: "miss"}

// countOverlaps finds the series of all comparisons once: to find one by its labels costs more than to count.
func (m *metrics) countOverlaps(vec *prometheus.CounterVec) {
	for _, s := range []routing.Source{routing.Events, routing.Answers} {
		for i, result := range overlapResults {
			m.overlap[s][i] = vec.WithLabelValues(s.String(), result)
		}
	}
}
