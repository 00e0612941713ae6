package admin

import (
	"log/slog"
	"regexp"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/common/expfmt"
	"github.com/valyala/fasthttp"
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
		collector(func(out sink) {
			out.gauge(descBuild, 1, version, runtime.Version())
			p.collect(out)
		}),
	)
	m.registry.MustRegister(p.Metrics...)
	return m
}

// collector sends metrics at each scrape. It describes none before: the registry checks them as
// they come.
type collector func(out sink)

var _ prometheus.Collector = collector(nil)

// Describe implements prometheus.Collector.
func (collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) { c(sink{ch}) }

// collect sends the metrics of all parts.
func (p *Parts) collect(out sink) {
	now, snap := time.Now(), p.Registry.Snapshot()
	out.gauge(descPolicy, 1, p.Router.Policy().Name())
	out.workers(snap, p.Ingest, now)
	out.gpus(snap.Workers, now, &p.Router.Exclusions)
	out.index(p.Index.Stats())
	if p.Router.Approx != nil {
		out.approx(p.Router.Approx.Stats())
	}
	out.sources(p.Fleet.Sources())
	if p.Config != nil {
		out.config(p.Config())
	}
	caught, refused := p.Requests.Culprits()
	out.counter(descCaught, float64(caught))
	out.counter(descRefused, float64(refused))
	if p.Router.Known != nil {
		known := p.Router.Known.Stats(now)
		out.sessions(&known)
	}
	if gate := p.Requests.Queue(); gate != nil {
		out.queue(gate.Stats())
	}
	if p.Peers != nil {
		out.peers(p.Peers.Status())
	}
	if p.Cluster != nil {
		out.cluster(clusterStatus(p.Cluster))
	}
	if p.PromptCache != nil {
		out.promptCache(p.PromptCache.Stats())
	}
	if p.Lint != nil {
		out.lint(p.Lint)
	}
	if p.AccessLog != nil {
		out.counter(descLogLines, float64(p.AccessLog.Written()))
		out.counter(descLogDropped, float64(p.AccessLog.Dropped()))
	}
	if p.Snapshots != nil {
		out.snapshot(p.Snapshots())
	}
}

// newGoCollector has the runtime's default metrics and the heap that the last collection found
// live.
func newGoCollector() prometheus.Collector {
	live := collectors.GoRuntimeMetricsRule{Matcher: regexp.MustCompile("^/gc/heap/live:bytes$")}
	return collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(live))
}

var (
	descBuild  = desc("build_info", "1, with the version of the router and of Go.", "version", "goversion")
	descCaught = desc("quarantine_caught_total",
		"Requests that were in flight when two engines died.")
	descRefused = desc("quarantine_refused_total",
		"Requests refused because they equal one that was (--quarantine).")
	descLogLines   = desc("access_log_lines_total", "Lines written to the access log.")
	descLogDropped = desc("access_log_dropped_total",
		"Requests without a line in the access log: the disk was too slow, or failed.")
)

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

func (out sink) gauge(d *prometheus.Desc, v float64, labels ...string) {
	out.ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

func (out sink) counter(d *prometheus.Desc, v float64, labels ...string) {
	out.ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
}

// counterIfAny sends nothing where a rare thing has not happened yet.
func (out sink) counterIfAny(d *prometheus.Desc, n uint64, labels ...string) {
	if n > 0 {
		out.counter(d, float64(n), labels...)
	}
}

// oneIf is the value of a gauge that says yes or no.
func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
