package admin

import (
	"math"
	"time"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

// LoadStatus is a rank's load, as policies see it.
type LoadStatus struct {
	// Of the rank's reports: published, polled or dispatch (it sends none).
	Source     string  `json:"source"`
	AgeSeconds float64 `json:"age_seconds"`
	// Of this router, and of others as of the last report.
	InFlight         int64   `json:"in_flight"`
	Waiting          int64   `json:"waiting"`        // of those, without a first token
	PendingTokens    int64   `json:"pending_tokens"` // prompt tokens left to compute
	UsedTokens       int64   `json:"used_tokens"`    // of the KV pool, by running requests
	PoolTokens       int64   `json:"pool_tokens"`
	MaxRunning       int64   `json:"max_running"`
	PrefillPerSecond float64 `json:"prefill_tokens_per_second"` // 0: not known yet
	OwnInFlight      int64   `json:"own_in_flight"`             // of this router
	OwnPendingTokens int64   `json:"own_pending_tokens"`
	// Of the KV pool, for this router's decode legs.
	ReservedTokens int64 `json:"reserved_tokens"`
	ReportsStale   bool  `json:"reports_too_old"` // and no longer used
	// PendingTokens over the rate; 0 where that is not known.
	PredictedWait float64 `json:"predicted_wait_s"`
	// SetAside are the fields of the rank's reports that contradict this router's own measurements.
	SetAside []SetAsideField `json:"set_aside,omitempty"`
}

// SetAsideField is a field of load reports that policies do not use.
type SetAsideField struct {
	// used_tokens, pool_tokens, prefill_tokens_per_second or requests_of_other_routers
	Field    string  `json:"field"`
	Why      string  `json:"why"`
	Since    string  `json:"since"`
	Reported float64 `json:"reported"` // used tokens then, the rate now
	Instead  float64 `json:"instead"`  // the value that policies use
}

func loadStatus(r *worker.Rank, v *worker.LoadView) LoadStatus {
	st := LoadStatus{
		Source: "dispatch", InFlight: v.InFlight, Waiting: v.Waiting, PendingTokens: v.Pending,
		UsedTokens: v.Used, PoolTokens: v.Pool,
		MaxRunning: v.Most, PrefillPerSecond: math.Round(v.Rate), OwnInFlight: r.Load.InFlight(),
		OwnPendingTokens: r.Load.Pending(),
		ReservedTokens:   v.Reserved,
	}
	for _, a := range r.Load.SetAside() {
		st.SetAside = append(st.SetAside, SetAsideField{
			Field: a.Field, Why: a.Why, Since: a.Since.UTC().Format(time.RFC3339),
			Reported: math.Round(a.Reported), Instead: math.Round(a.Instead),
		})
	}
	if v.Age >= 0 {
		st.Source, st.AgeSeconds, st.ReportsStale = "published", rounded(v.Age), v.Stale()
	}
	if v.Polled {
		st.Source = "polled"
	}
	if v.Rate > 0 {
		st.PredictedWait = rounded(float64(v.Pending) / v.Rate)
	}
	return st
}

// TrustStatus is the overlap credit of a rank and its reasons.
type TrustStatus struct {
	// Share of the rank's overlap that counts in the choice.
	Credit float64 `json:"credit"`
	// Share of hits among the last answers with an expected overlap.
	Accuracy float64 `json:"accuracy"`
	// Answers in that window: at most 64, of 5 minutes.
	Compared int `json:"compared"`
	// Since an event batch or a check confirmed the rank's cache; -1: none did.
	SilentSeconds float64 `json:"silent_seconds"`
	CheckSeconds  float64 `json:"check_seconds"` // between two checks, by its accuracy
	// Events is why the rank's events are set aside: the rank is known by its answers.
	Events *EventsAside `json:"events_set_aside,omitempty"`
}

// EventsAside is a fault of a rank's events that keeps them out of the choice.
type EventsAside struct {
	Why   string `json:"why"`
	Since string `json:"since"`
}

func trustStatus(r *worker.Rank, now time.Time) TrustStatus {
	accuracy, compared := r.Trust.Accuracy(now)
	st := TrustStatus{
		Credit: r.Trust.Credit(now, r.Exact()), Accuracy: accuracy, Compared: compared,
		SilentSeconds: -1, CheckSeconds: r.Trust.CheckEvery(now).Seconds(),
	}
	if silence := r.Trust.Silence(now); silence >= 0 {
		st.SilentSeconds = rounded(silence.Seconds())
	}
	if fault := r.Events.Fault(); fault != worker.NoEventFault {
		st.Events = &EventsAside{Why: fault.Why(), Since: r.Events.Since().UTC().Format(time.RFC3339)}
	}
	return st
}

// BreakerStatus is the state of a worker's circuit breaker.
type BreakerStatus struct {
	State  string `json:"state"`  // closed, open or half-open
	Faults int    `json:"faults"` // in a row
	Opened uint64 `json:"opened"` // times
}

func breakerStatus(w *worker.Worker, now time.Time) BreakerStatus {
	b := &w.Breaker
	return BreakerStatus{State: b.State(now).String(), Faults: b.Faults(), Opened: b.Opened()}
}

// rounded cuts seconds to a tenth of a millisecond.
func rounded(s float64) float64 { return math.Round(s*1e4) / 1e4 }

var (
	descRate = desc("rank_prefill_tokens_per_second",
		"Prompt tokens that the rank computes a second, learnt from its load reports; 0: not "+
			"known yet.", "worker", "rank")
	descBacklog = desc("rank_backlog_tokens",
		"Prompt tokens left to compute at the rank, of all routers as far as it reports.", "worker", "rank")
	descPool = desc("rank_pool_usage",
		"Share of the rank's KV pool that running requests hold; absent where the pool is not known.", "worker", "rank")
	descSetAside = desc("rank_report_set_aside",
		"1 while a field of the rank's load reports contradicts this router's own "+
			"measurements, and is not used.", "worker", "rank", "field")
	descTimesAside = desc("rank_report_set_aside_total",
		"Times that a field of the rank's load reports was set aside. Absent where it never was.", "worker", "rank", "field")
	descAccuracy = desc("rank_accuracy",
		"Share of the rank's last answers, of at most 64 with an expected overlap, that had at "+
			"least 0.8 of it.", "worker", "rank")
)

func (out sink) load(r *worker.Rank, now time.Time, url, rank string) {
	l := r.Load.View(now)
	out.gauge(descRate, math.Round(l.Rate), url, rank)
	out.gauge(descBacklog, float64(l.Pending), url, rank)
	if l.Pool > 0 {
		out.gauge(descPool, rounded(float64(l.Used)/float64(l.Pool)), url, rank)
	}
	for _, a := range r.Load.SetAside() {
		out.gauge(descSetAside, 1, url, rank, a.Field)
	}
	for field, times := range r.Load.TimesAside() {
		out.counterIfAny(descTimesAside, times, url, rank, field)
	}
	if accuracy, compared := r.Trust.Accuracy(now); compared > 0 {
		out.gauge(descAccuracy, accuracy, url, rank)
	}
}
