package admin

import (
	"log/slog"
	"regexp"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/common/expfmt"
	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/request"
	"github.com/warmpath/warmpath/dataplane/request/accesslog"
)

// metrics answers GET /metrics. Package request counts requests as they end; all else is read from
// the router's parts at each scrape.
type metrics struct {
	registry *prometheus.Registry
	log      *slog.Logger
}

func newMetrics(p *Parts, version string) *metrics {
	m := &metrics{registry: prometheus.NewRegistry(), log: p.Requests.Log()}
	m.registry.MustRegister(
		newGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		p.Requests.Metrics(),
		workerCollector{registry: p.Registry, router: p.Router, ingest: p.Ingest},
		loadCollector{p.Registry},
		gpuCollector{p.Registry, &p.Router.Exclusions},
		indexCollector{p.Index, p.Router.Approx},
		fleetCollector{p.Fleet, p.Config},
	)
	m.registerBuild(version)
	m.registerCulprits(p.Requests)
	if p.Router.Known != nil {
		m.registry.MustRegister(sessionCollector{p.Router.Known})
	}
	m.registry.MustRegister(p.Metrics...)
	if gate := p.Requests.Queue(); gate != nil {
		m.registry.MustRegister(queueCollector{gate})
	}
	if p.Peers != nil {
		m.registry.MustRegister(peerCollector{p.Peers})
	}
	if p.Cluster != nil {
		m.registry.MustRegister(clusterCollector{p.Cluster})
	}
	if p.PromptCache != nil {
		m.registry.MustRegister(promptCacheCollector{p.PromptCache})
	}
	if p.Lint != nil {
		m.registry.MustRegister(lintCollector{p.Lint})
	}
	if p.AccessLog != nil {
		m.registerAccessLog(p.AccessLog)
	}
	if p.Snapshots != nil {
		m.registry.MustRegister(snapshotCollector(p.Snapshots))
	}
	return m
}

// newGoCollector has the runtime's default metrics and the heap that the last collection found
// live.
func newGoCollector() prometheus.Collector {
	live := collectors.GoRuntimeMetricsRule{Matcher: regexp.MustCompile("^/gc/heap/live:bytes$")}
	return collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(live))
}

// counter registers a counter that is read at each scrape.
func (m *metrics) counter(name, help string, value func() uint64) {
	opts := prometheus.CounterOpts{Namespace: "warmpath", Name: name, Help: help}
	m.registry.MustRegister(prometheus.NewCounterFunc(opts, func() float64 { return float64(value()) }))
}

var descBuild = desc("build_info", "1, with the version of the router and of Go.", "version", "goversion")

// registerBuild registers the version of the router.
func (m *metrics) registerBuild(version string) {
	m.registry.MustRegister(constant{prometheus.MustNewConstMetric(descBuild, prometheus.GaugeValue, 1, version, runtime.Version())})
}

// constant is a collector of one metric.
type constant struct{ prometheus.Metric }

// Describe implements prometheus.Collector.
func (c constant) Describe(ch chan<- *prometheus.Desc) { ch <- c.Desc() }

// Collect implements prometheus.Collector.
func (c constant) Collect(ch chan<- prometheus.Metric) { ch <- c.Metric }

func (m *metrics) registerCulprits(h *request.Handler) {
	m.counter("quarantine_caught_total", "Requests that were in flight when two engines died.", func() uint64 { caught, _ := h.Culprits(); return caught })
	m.counter("quarantine_refused_total",
		"Requests refused because they equal one that was (--quarantine).", func() uint64 { _, refused := h.Culprits(); return refused })
}

func (m *metrics) registerAccessLog(l *accesslog.Log) {
	m.counter("access_log_lines_total", "Lines written to the access log.", l.Written)
	m.counter("access_log_dropped_total",
		"Requests without a line in the access log: the disk was too slow, or failed.", l.Dropped)
}

// serve answers in Prometheus' text format.
func (m *metrics) serve(ctx *fasthttp.RequestCtx) {
	families, err := m.registry.Gather()
	if err != nil {
		m.log.Error("cannot gather metrics", "error", err)
	}
	format := expfmt.NewFormat(expfmt.TypeTextPlain)
	ctx.SetContentType(string(format))
	encoder := expfmt.NewEncoder(ctx, format)
	for _, f := range families {
		if err := encoder.Encode(f); err != nil {
			m.log.Error("cannot encode metrics", "family", f.GetName(), "error", err)
		}
	}
}

// desc describes a metric of this package.
func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("warmpath_"+name, help, labels, nil)
}

// sink takes the metrics of one scrape.
type sink struct{ ch chan<- prometheus.Metric }

func (s sink) gauge(d *prometheus.Desc, v float64, labels ...string) {
	s.ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

func (s sink) counter(d *prometheus.Desc, v float64, labels ...string) {
	s.ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
}

// counterIfAny sends nothing where a rare thing has not happened yet.
func (s sink) counterIfAny(d *prometheus.Desc, n uint64, labels ...string) {
	if n > 0 {
		s.counter(d, float64(n), labels...)
	}
}

// oneIf is the value of a gauge that says yes or no.
func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
