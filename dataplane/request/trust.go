package request

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

// LoadStatus is a rank's load, as a choice sees it.
type LoadStatus struct {
	Source            string  `json:"source"` // of what the rank says: published, polled or dispatch (it says nothing)
	AgeSeconds        float64 `json:"age_seconds"`
	InFlight          int64   `json:"in_flight"`      // own, and others' as of the last report
	Waiting           int64   `json:"waiting"`        // of those, without a first token
	PendingTokens     int64   `json:"pending_tokens"` // prompt tokens that are left to compute
	UsedTokens        int64   `json:"used_tokens"`    // of the KV pool, by running requests
	PoolTokens        int64   `json:"pool_tokens"`
	MaxRunning        int64   `json:"max_running"`
	PrefillPerSecond  float64 `json:"prefill_tokens_per_second"` // 0: not known yet
	OwnInFlight       int64   `json:"own_in_flight"`             // sent by this router
	OwnPendingTokens  int64   `json:"own_pending_tokens"`
	ReservedTokens    int64   `json:"reserved_tokens"`  // of the KV pool, for decode legs that this router has there
	ReportsAreTooOld  bool    `json:"reports_too_old"`  // and count no longer
	PredictedWaitSecs float64 `json:"predicted_wait_s"` // pending_tokens over the rate; 0 where that is not known
	// SetAside are the fields of the rank's reports that contradict what this router sees of it.
	SetAside []AsideStatus `json:"set_aside,omitempty"`
}

// AsideStatus is a field of load reports that choices do not use.
type AsideStatus struct {
	Field    string  `json:"field"` // used_tokens or prefill_tokens_per_second
	Why      string  `json:"why"`
	Since    string  `json:"since"`
	Reported float64 `json:"reported"` // used tokens then, the speed now
	Instead  float64 `json:"instead"`  // the value that choices use
}

func loadStatus(r *worker.Rank, v *worker.LoadView) LoadStatus {
	st := LoadStatus{
		Source: "dispatch", InFlight: v.InFlight, Waiting: v.Waiting, PendingTokens: v.Pending, UsedTokens: v.Used, PoolTokens: v.Pool,
		MaxRunning: v.Most, PrefillPerSecond: math.Round(v.Rate), OwnInFlight: r.Load.InFlight(), OwnPendingTokens: r.Load.Pending(),
		ReservedTokens: v.Reserved,
	}
	for _, a := range r.Load.SetAside() {
		st.SetAside = append(st.SetAside, AsideStatus{
			Field: a.Field, Why: a.Why, Since: a.Since.UTC().Format(time.RFC3339), Reported: math.Round(a.Reported), Instead: math.Round(a.Instead),
		})
	}
	if v.Age >= 0 {
		st.Source, st.AgeSeconds, st.ReportsAreTooOld = "published", rounded(v.Age), v.Stale()
	}
	if v.Polled {
		st.Source = "polled"
	}
	if v.Rate > 0 {
		st.PredictedWaitSecs = rounded(float64(v.Pending) / v.Rate)
	}
	return st
}

// TrustStatus is how far what is known of a rank's cache is believed.
type TrustStatus struct {
	Credit        float64 `json:"credit"`         // share of a known overlap that counts in the choice
	Accuracy      float64 `json:"accuracy"`       // share of hits among the last answers with an expected overlap
	Compared      int     `json:"compared"`       // of those, in the window: at most 64, of 5 minutes
	SilentSeconds float64 `json:"silent_seconds"` // since an event batch or a check showed what the rank holds; -1: it never did
	CheckSeconds  float64 `json:"check_seconds"`  // how often it is checked, by its accuracy
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
	return st
}

// rounded is a number of seconds as people read it.
func rounded(s float64) float64 { return math.Round(s*1e4) / 1e4 }

var (
	descRate      = desc("rank_prefill_tokens_per_second", "Prompt tokens that the rank computes a second, learnt from its load reports; 0: not known yet.", "rank")
	descBacklog   = desc("rank_backlog_tokens", "Prompt tokens left to compute at the rank, of all routers as far as it reports.", "rank")
	descRequests  = desc("rank_requests", "Requests at the rank, of all routers as far as it reports: running or waiting for a first token.", "rank", "state")
	descPoolUsed  = desc("rank_pool_used_tokens", "Tokens of the rank's KV pool that running requests hold.", "rank")
	descPool      = desc("rank_pool_tokens", "Tokens of the rank's KV pool.", "rank")
	descAside     = desc("rank_report_set_aside", "1 while a field of the rank's load reports contradicts what this router sees of the rank, and is not used.", "rank", "field")
	descReportAge = desc("load_report_age_seconds", "Age of the rank's last load report, by where it came from.", "rank", "source")
	descAccuracy  = desc("rank_accuracy", "Share of the rank's last answers, of at most 64 with an expected overlap, that had at least 0.8 of it.", "rank")
	descCredit    = desc("rank_credit", "Share of the rank's known overlap that counts in the choice, by how right and how fresh it is.", "rank")
	descSilence   = desc("rank_silence_seconds", "Time since an event batch or a check showed what the rank holds.", "rank")
	descCheck     = desc("rank_check_seconds", "How often the rank's events are checked for what was lost, by its accuracy.", "rank")
)

// trustCollector reads load and trust of each rank at each scrape.
type trustCollector struct{ registry *worker.Registry }

var _ prometheus.Collector = trustCollector{}

// Describe implements prometheus.Collector.
func (trustCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descRate, descBacklog, descRequests, descPoolUsed, descPool, descAside, descReportAge, descAccuracy, descCredit, descSilence, descCheck,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c trustCollector) Collect(ch chan<- prometheus.Metric) {
	now := time.Now()
	for _, r := range c.registry.Snapshot().Ranks {
		gauge := func(d *prometheus.Desc, v float64, labels ...string) {
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, append([]string{r.ID()}, labels...)...)
		}
		seen := r.Load.View(now)
		l, t := loadStatus(r, &seen), trustStatus(r, now)
		gauge(descRate, l.PrefillPerSecond)
		gauge(descBacklog, float64(l.PendingTokens))
		gauge(descRequests, float64(l.InFlight-l.Waiting), "running")
		gauge(descRequests, float64(l.Waiting), "waiting")
		gauge(descPoolUsed, float64(l.UsedTokens))
		gauge(descPool, float64(l.PoolTokens))
		for _, a := range l.SetAside {
			gauge(descAside, 1, a.Field)
		}
		if l.Source != "dispatch" {
			gauge(descReportAge, l.AgeSeconds, l.Source)
		}
		if t.Compared > 0 {
			gauge(descAccuracy, t.Accuracy)
		}
		gauge(descCredit, t.Credit)
		if t.SilentSeconds >= 0 {
			gauge(descSilence, t.SilentSeconds)
		}
		gauge(descCheck, t.CheckSeconds)
	}
}
