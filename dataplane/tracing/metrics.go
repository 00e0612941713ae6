package tracing

import "github.com/prometheus/client_golang/prometheus"

var traceSpans = prometheus.NewDesc("warmpath_trace_spans_total",
	"Ended spans of traces: uploaded, failed (the collector did not take them) or dropped (too many waited for it).", []string{"result"}, nil)

// Collector returns the Tracer's metrics.
func (t *Tracer) Collector() prometheus.Collector { return collector{t} }

type collector struct{ t *Tracer }

// Describe implements prometheus.Collector.
func (collector) Describe(out chan<- *prometheus.Desc) { out <- traceSpans }

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) {
	for result, n := range map[string]uint64{"uploaded": c.t.uploaded.Load(), "failed": c.t.failed.Load(), "dropped": c.t.dropped.Load()} {
		out <- prometheus.MustNewConstMetric(traceSpans, prometheus.CounterValue, float64(n), result)
	}
}
