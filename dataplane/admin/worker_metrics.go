package admin

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/ingest"
	"github.com/warmpath/warmpath/dataplane/routing"
)

var (
	descUp   = desc("worker_up", "1 while the worker may be chosen.", "worker", "state")
	descRole = desc("worker_role",
		"1, with the worker's role: regular, prefill or decode.", "worker", "role")
	descBreaker = desc("worker_breaker",
		"1, with the state of the worker's circuit breaker: closed, open (no requests while "+
			"other workers are there) or half-open (one at a time).",
		"worker", "state")
	descOpened = desc("worker_breaker_opened_total",
		"Times that the worker's breaker has opened: three failures in a row, five among the "+
			"last twenty answers, or a failed trial.", "worker")

	descReserved = desc("reserved_kv_tokens",
		"KV tokens that decode legs in flight at the rank will need.", "worker", "rank")
	descInFlight = desc("in_flight_requests",
		"Requests dispatched to the rank and not ended.", "worker", "rank")
	descPending = desc("pending_prefill_tokens",
		"Prompt tokens dispatched to the rank, expected uncached and not prefilled.", "worker", "rank")
	descRankErrors = desc("attempts_failed_total",
		"Attempts at the rank that ended without an answer.", "worker", "rank")
	descExact = desc("rank_exact",
		"1 while the rank's overlap is exact, by its events; else it is approximate, by its "+
			"answers.", "worker", "rank")
	descEventsAside = desc("rank_events_set_aside",
		"1 while the rank's events are set aside, by fault: some are lost for good (lost), its answers report more cached "+
			"tokens than its events told of (less), or fewer (more), many batches are unreadable, or another worker names the "+
			"same address for its events (shared).", "worker", "rank", "fault")
	descTimesEventsAside = desc("rank_events_set_aside_total",
		"Times that the rank's events were set aside.", "worker", "rank")
	descApprox = desc("approx_rank_tokens",
		"Prompt tokens of the rank in the tree of sent prompts.", "worker", "rank")
	descBlocks = desc("index_rank_blocks", "KV block copies of the rank by its events.", "worker", "rank")
	descLag    = desc("event_lag_seconds",
		"Age of the last event batch when it was applied.", "worker", "rank")
	descBatches = desc("event_batches_total", "Event batches applied.", "worker", "rank")
	descFaults  = desc("event_faults_total",
		"Faults of the rank's event stream.", "worker", "rank", "kind")
)

// workerCollector reads the workers, their ranks and event streams at each scrape.
type workerCollector struct {
	registry *worker.Registry
	router   *routing.Router
	ingest   *ingest.Manager
}

var _ prometheus.Collector = workerCollector{}

// Describe implements prometheus.Collector.
func (workerCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descUp, descRole, descBreaker, descOpened,
		descReserved, descInFlight, descPending, descRankErrors, descExact, descEventsAside, descTimesEventsAside, descApprox,
		descBlocks, descLag, descBatches, descFaults,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c workerCollector) Collect(ch chan<- prometheus.Metric) {
	snap, out := c.registry.Snapshot(), sink{ch}
	for _, w := range snap.Workers {
		state := w.State()
		out.gauge(descUp, oneIf(state == worker.Ready), w.URL, state.String())
		out.gauge(descRole, 1, w.URL, w.Role().String())
		out.gauge(descBreaker, 1, w.URL, w.Breaker.State(time.Now()).String())
		out.counter(descOpened, float64(w.Breaker.Opened()), w.URL)
	}
	for _, r := range snap.Ranks {
		c.collectRank(out, r)
	}
}

func (c workerCollector) collectRank(out sink, r *worker.Rank) {
	url, rank := r.Labels()
	out.gauge(descReserved, float64(r.Load.Reserved()), url, rank)
	out.gauge(descInFlight, float64(r.Load.InFlight()), url, rank)
	out.gauge(descPending, float64(r.Load.Pending()), url, rank)
	out.gauge(descExact, oneIf(r.Exact()), url, rank)
	if fault := r.Events.Fault(); fault != worker.NoEventFault {
		out.gauge(descEventsAside, 1, url, rank, fault.String())
	}
	out.counter(descTimesEventsAside, float64(r.Events.Times()), url, rank)
	if a := c.router.Approx; a != nil {
		out.gauge(descApprox, float64(a.Held(r)), url, rank)
	}
	out.counter(descRankErrors, float64(r.Count.Errors.Load()), url, rank)
	if stream := c.ingest.Stream(r); stream != nil {
		out.gauge(descBlocks, float64(stream.Blocks()), url, rank)
		collectStream(out, &stream.Stats, url, rank)
	}
}

func collectStream(out sink, st *ingest.Stats, url, rank string) {
	out.gauge(descLag, st.Lag().Seconds(), url, rank)
	out.counter(descBatches, float64(st.Batches.Load()), url, rank)
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
		out.counter(descFaults, float64(f.count.Load()), url, rank, f.kind)
	}
}
