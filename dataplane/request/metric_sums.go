package request

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/valyala/fasthttp"
)

// Sums are counts of all workers together, as /metrics has them by worker.
type Sums struct {
	Requests, PromptTokens, HitTokens, ExpectedTokens, GeneratedTokens uint64

	Failures            FailureSums
	TTFT, Duration, ITL HistogramSum
}

// FailureSums count requests without a good answer, by the side that is at fault.
type FailureSums struct {
	Busy   uint64 // 429, of the router or of a worker
	Keys   uint64 // 401 and 403
	Client uint64 // other 4xx
	Worker uint64 // 5xx that a worker answered
	Router uint64 // 5xx of the router's own
	Cut    uint64 // answers that a worker broke off
}

// HistogramSum is a histogram of all workers. Buckets has one more than Bounds.
type HistogramSum struct {
	Bounds  []float64
	Buckets []uint64
}

// Sums adds up the series of all workers. It takes as long as a scrape, and like one it holds up no
// request.
func (m *Metrics) Sums() Sums {
	s := Sums{
		Requests:     m.requestTotal.Load(),
		PromptTokens: sum(m.ranks.prompt), HitTokens: sum(m.ranks.cached), ExpectedTokens: sum(m.ranks.expected),
		GeneratedTokens: sum(m.ranks.output),
		TTFT:            histogramSum(m.ranks.ttft), Duration: histogramSum(m.ranks.latency), ITL: m.gaps.sums(),
	}
	s.Failures.Cut = sum(m.cuts)
	each(m.errors, func(one *dto.Metric) { s.Failures.add(one, &s.Failures.Router) })
	each(m.ranks.requests, func(one *dto.Metric) { s.Failures.add(one, &s.Failures.Worker) })
	return s
}

// add counts one series by its status. Those of 5xx count as broken.
func (f *FailureSums) add(one *dto.Metric, broken *uint64) {
	var to *uint64
	switch status := statusOf(one); {
	case status >= fasthttp.StatusInternalServerError:
		to = broken
	case status == fasthttp.StatusTooManyRequests:
		to = &f.Busy
	case status == fasthttp.StatusUnauthorized, status == fasthttp.StatusForbidden:
		to = &f.Keys
	case status >= fasthttp.StatusBadRequest:
		to = &f.Client
	default:
		return
	}
	*to += uint64(one.GetCounter().GetValue())
}

func statusOf(one *dto.Metric) int {
	for _, label := range one.GetLabel() {
		if label.GetName() == "status" {
			status, _ := strconv.Atoi(label.GetValue())
			return status
		}
	}
	return 0
}

func sum(c prometheus.Collector) uint64 {
	total := 0.0
	each(c, func(one *dto.Metric) { total += one.GetCounter().GetValue() })
	return uint64(total)
}

func histogramSum(c prometheus.Collector) HistogramSum {
	h := HistogramSum{Bounds: latencyBuckets, Buckets: make([]uint64, len(latencyBuckets)+1)}
	each(c, func(one *dto.Metric) {
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
