package request

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/radix/approx"
)

// totals are what /status shows of all workers together.
type totals struct {
	requests, errors   atomic.Uint64
	exact, approximate comparison
}

// comparison is how well overlaps were foretold.
type comparison struct {
	compared, accurate atomic.Uint64 // answers with an expected and a reported overlap; of those, hits
}

// collector reads the workers, their streams and the index at each scrape.
type collector struct{ s *Server }

var _ prometheus.Collector = (*collector)(nil)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("warmpath_"+name, help, labels, nil)
}

var (
	descUp           = desc("worker_up", "1 while the worker may be chosen.", "worker", "state")
	descRole         = desc("worker_role", "1, with what the worker does: aggregated, prefill or decode.", "worker", "role")
	descBreaker      = desc("worker_breaker", "1, with what the worker's breaker lets through: all (closed), nothing while others are there (open) or one request at a time (half-open).", "worker", "state")
	descOpened       = desc("worker_breaker_opened_total", "Times that the worker's breaker has opened: three failures in a row, five among the last twenty answers, or a failed trial.", "worker")
	descReserved     = desc("reserved_kv_tokens", "KV tokens that decode legs in flight at the rank will need.", "rank")
	descInFlight     = desc("in_flight_requests", "Requests dispatched to the rank and not ended.", "rank")
	descPending      = desc("pending_prefill_tokens", "Prompt tokens dispatched to the rank, expected uncached and not prefilled.", "rank")
	descRankErrors   = desc("attempts_failed_total", "Attempts at the rank that ended without an answer.", "rank")
	descBlocks       = desc("index_rank_blocks", "KV block copies that the rank holds by its events.", "rank")
	descLag          = desc("event_lag_seconds", "Age of the last event batch when it was applied.", "rank")
	descBatches      = desc("event_batches_total", "Event batches applied.", "rank")
	descStreamEvents = desc("event_faults_total", "What went wrong in the rank's event stream.", "rank", "kind")
	descIndexBlocks  = desc("index_blocks", "Block copies in the index, all workers.")
	descIndexNodes   = desc("index_nodes", "Runs in the index's tree.")
	descIndexBytes   = desc("index_bytes", "Estimated memory of the index.")
	descPredictions  = desc("index_predictions", "Prompts in flight, or answered just now, whose blocks the index predicts.")
	descExact        = desc("rank_exact", "1 while the rank's overlaps are exact, by its events; else they are approximate, by its answers.", "rank")
	descApproxUnits  = desc("approx_rank_tokens", "Prompt tokens that the rank is believed to hold by what was sent to it.", "rank")
	descApproxBytes  = desc("approx_bytes", "Memory of the approximate tree.")
	descApproxMax    = desc("approx_max_bytes", "Bound of approx_bytes.")
	descApproxNodes  = desc("approx_nodes", "Nodes of the approximate tree.")
	descApproxGone   = desc("approx_evictions_total", "Parts dropped from the approximate tree: memory (approx_max_bytes), capacity (of "+
		"the worker), stale (an answer showed that the engine had evicted them) or failed (their request was).", "reason")
	descApproxLearnt = desc("approx_corrections_total", "Answers that told of less (contradicted) or more (surprised) cached than was believed.", "kind")
)

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descUp, descRole, descBreaker, descOpened, descReserved, descInFlight, descPending, descRankErrors, descBlocks, descLag, descBatches, descStreamEvents,
		descIndexBlocks, descIndexNodes, descIndexBytes, descPredictions, descExact,
		descApproxUnits, descApproxBytes, descApproxMax, descApproxNodes, descApproxGone, descApproxLearnt,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	snap := c.s.Registry.Snapshot()
	for _, w := range snap.Workers {
		up, state := 0.0, w.State()
		if state == worker.Ready {
			up = 1
		}
		ch <- prometheus.MustNewConstMetric(descUp, prometheus.GaugeValue, up, w.URL, state.String())
		collectWorker(ch, w)
	}
	for _, r := range snap.Ranks {
		c.collectRank(ch, r)
	}
	st := c.s.Index.Stats()
	ch <- prometheus.MustNewConstMetric(descIndexBlocks, prometheus.GaugeValue, float64(st.Entries))
	ch <- prometheus.MustNewConstMetric(descIndexNodes, prometheus.GaugeValue, float64(st.Runs))
	ch <- prometheus.MustNewConstMetric(descIndexBytes, prometheus.GaugeValue, float64(st.Bytes))
	ch <- prometheus.MustNewConstMetric(descPredictions, prometheus.GaugeValue, float64(st.Predictions))
	if c.s.Router.Approx != nil {
		collectApprox(ch, c.s.Router.Approx.Stats())
	}
}

func collectApprox(ch chan<- prometheus.Metric, st approx.Stats) {
	gauge := func(d *prometheus.Desc, v int64) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v))
	}
	counter := func(d *prometheus.Desc, v int64, label string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), label)
	}
	gauge(descApproxBytes, st.Bytes)
	gauge(descApproxMax, st.MaxBytes)
	gauge(descApproxNodes, st.Nodes)
	counter(descApproxGone, st.EvictedMemory, "memory")
	counter(descApproxGone, st.EvictedCapacity, "capacity")
	counter(descApproxGone, st.EvictedStale, "stale")
	counter(descApproxGone, st.Withdrawn, "failed")
	counter(descApproxLearnt, st.Contradicted, "contradicted")
	counter(descApproxLearnt, st.Surprised, "surprised")
}

func (c *collector) collectRank(ch chan<- prometheus.Metric, r *worker.Rank) {
	id := r.ID()
	ch <- prometheus.MustNewConstMetric(descReserved, prometheus.GaugeValue, float64(r.Load.Reserved()), id)
	gauge := func(d *prometheus.Desc, v float64) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, id)
	}
	gauge(descInFlight, float64(r.Load.InFlight()))
	gauge(descPending, float64(r.Load.Pending()))
	exact := 0.0
	if r.Exact() {
		exact = 1
	}
	gauge(descExact, exact)
	if a := c.s.Router.Approx; a != nil {
		gauge(descApproxUnits, float64(a.Held(r)))
	}
	ch <- prometheus.MustNewConstMetric(descRankErrors, prometheus.CounterValue, float64(r.Count.Errors.Load()), id)
	stream := c.s.Ingest.Stream(r)
	if stream == nil {
		return
	}
	st := &stream.Stats
	gauge(descBlocks, float64(stream.Blocks()))
	gauge(descLag, st.Lag().Seconds())
	ch <- prometheus.MustNewConstMetric(descBatches, prometheus.CounterValue, float64(st.Batches.Load()), id)
	for _, f := range []struct {
		kind  string
		count *atomic.Uint64
	}{
		{"gap", &st.Gaps},
		{"lost", &st.Lost},
		{"replayed", &st.Replayed},
		{"duplicate", &st.Duplicates},
		{"disconnect", &st.Disconnects},
		{"restart", &st.Restarts},
		{"mute", &st.Mutes},
		{"resync", &st.Resyncs},
		{"malformed", &st.Malformed},
		{"unknown_event", &st.UnknownEvents},
		{"unknown_field", &st.UnknownFields},
		{"unknown_parent", &st.UnknownParents},
		{"unknown_removal", &st.UnknownRemovals},
		{"beyond_budget", &st.BeyondBudget},
		{"evicted_removal", &st.EvictedRemovals},
	} {
		ch <- prometheus.MustNewConstMetric(descStreamEvents, prometheus.CounterValue, float64(f.count.Load()), id, f.kind)
	}
}

// serveMetrics answers in Prometheus' text format.
func (s *Server) serveMetrics(ctx *fasthttp.RequestCtx) {
	families, err := s.metrics.registry.Gather()
	if err != nil {
		s.cfg.Log.Error("cannot gather metrics", "error", err)
	}
	format := expfmt.NewFormat(expfmt.TypeTextPlain)
	ctx.SetContentType(string(format))
	encoder := expfmt.NewEncoder(ctx, format)
	for _, f := range families {
		if err := encoder.Encode(f); err != nil {
			s.cfg.Log.Error("cannot encode metrics", "family", f.GetName(), "error", err)
		}
	}
}
