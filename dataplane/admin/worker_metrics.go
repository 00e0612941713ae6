package admin

import (
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/ingest"
	"github.com/warmpath/warmpath/dataplane/routing"
)

// At 1,000 ranks a series is some 80 KB of each scrape. So a rank has those that tell which one
// needs attention, the rare ones only where they are not 0, and the rest is in /status.
var (
	descPolicy = desc("policy_info", "1, with the name of the policy in force.", "policy")
	descRanks  = desc("ranks", "Ranks by their overlap: exact, by their events, or approximate, by their answers.", "overlap")

	descUp = desc("worker_up", "1 while the worker may be chosen, with its role: regular, prefill or decode.",
		"worker", "state", "role")
	descBreaker = desc("worker_breaker",
		"1 while the worker's circuit breaker is open (no requests while other workers are there) or "+
			"half-open (one at a time).",
		"worker", "state")
	descOpened = desc("worker_breaker_opened_total",
		"Times that the worker's breaker has opened: three failures in a row, five among the "+
			"last twenty answers, or a failed trial. Absent where it never has.", "worker")

	descInFlight = desc("in_flight_requests",
		"Requests dispatched to the rank and not ended.", "worker", "rank")
	descRankErrors = desc("attempts_failed_total",
		"Attempts at the rank that ended without an answer. Absent where there was none.", "worker", "rank")
	descEventsAside = desc("rank_events_set_aside",
		"1 while the rank's events are set aside, by fault: some are lost for good (lost), its answers report more cached "+
			"tokens than its events told of (less), or fewer (more), many batches are unreadable, or another worker names the "+
			"same address for its events (shared).", "worker", "rank", "fault")
	descTimesEventsAside = desc("rank_events_set_aside_total",
		"Times that the rank's events were set aside. Absent where they never were.", "worker", "rank")
	descLag = desc("event_lag_seconds",
		"Age of the last event batch when it was applied.", "worker", "rank")
	descFaults = desc("event_faults_total",
		"Faults of the rank's event stream: events lost, unreadable or unknown, and connections and processes that ended. "+
			"Absent where there was none; /status has them by kind.", "worker", "rank")
)

// workers sends the state of workers, their ranks and event streams.
func (out sink) workers(snap *worker.Snapshot, events *ingest.Manager, now time.Time) {
	for _, w := range snap.Workers {
		state := w.State()
		out.gauge(descUp, oneIf(state == worker.Ready), w.URL, state.String(), w.Role().String())
		if breaker := w.Breaker.State(now); breaker != worker.BreakerClosed {
			out.gauge(descBreaker, 1, w.URL, breaker.String())
		}
		out.counterIfAny(descOpened, w.Breaker.Opened(), w.URL)
	}
	exact := 0
	for _, r := range snap.Ranks {
		if r.Exact() {
			exact++
		}
		url, rank := r.Labels()
		out.rank(r, events.Stream(r), url, rank)
		out.load(r, now, url, rank)
	}
	out.gauge(descRanks, float64(exact), routing.Events.String())
	out.gauge(descRanks, float64(len(snap.Ranks)-exact), routing.Answers.String())
}

func (out sink) rank(r *worker.Rank, stream *ingest.Stream, url, rank string) {
	out.gauge(descInFlight, float64(r.Load.InFlight()), url, rank)
	if fault := r.Events.Fault(); fault != worker.NoEventFault {
		out.gauge(descEventsAside, 1, url, rank, fault.String())
	}
	out.counterIfAny(descTimesEventsAside, r.Events.Times(), url, rank)
	out.counterIfAny(descRankErrors, r.Count.Errors.Load(), url, rank)
	if stream != nil {
		out.gauge(descLag, stream.Stats.Lag().Seconds(), url, rank)
		out.counterIfAny(descFaults, faults(&stream.Stats), url, rank)
	}
}

// faults counts what went wrong with a stream. What the index has no room for is counted as
// index_refused_stores_total.
func faults(st *ingest.Stats) (n uint64) {
	for _, kind := range []*atomic.Uint64{
		&st.Gaps, &st.Lost, &st.Disconnects, &st.Restarts, &st.Mutes, &st.Malformed, &st.UnknownEvents,
		&st.UnknownFields, &st.UnknownParents, &st.UnknownRemovals,
	} {
		n += kind.Load()
	}
	return n
}
