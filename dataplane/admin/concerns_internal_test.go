package admin

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/admin/history"
	"github.com/warmpath/warmpath/dataplane/fleet"
	"github.com/warmpath/warmpath/dataplane/operator"
)

// at is the time of the test's status.
var at = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func healthy(i int) WorkerStatus {
	w := WorkerStatus{State: "ready", StateSeconds: 7300, Breaker: BreakerStatus{State: "closed"}}
	w.ID = fmt.Sprintf("http://w%d:30000", i)
	w.Events, w.GPUs = &EventsStatus{State: "live", LagMS: 2}, &GPUHealthStatus{State: "healthy"}
	return w
}

// told returns the status of a router of healthy workers but for change, with its concerns.
func told(workers int, errors history.Errors, change func(st *Status)) *Status {
	st := &Status{Models: []ServedModel{{Model: "tiny", Ready: true}}, Queue: &QueueStatus{}}
	for i := range workers {
		st.Workers = append(st.Workers, healthy(i))
	}
	change(st)
	for i := range st.Workers {
		st.Workers[i].Concerns = st.Workers[i].concerns(at)
	}
	st.Concerns = concerns(st, errors)
	return st
}

func TestConcerns(t *testing.T) {
	first := func(change func(w *WorkerStatus)) func(st *Status) {
		return func(st *Status) { change(&st.Workers[0]) }
	}
	tests := []struct {
		kind     string // "": there is none
		severity Severity
		subject  string
		text     string
		seconds  float64
		change   func(st *Status)
	}{
		{change: func(*Status) {}},
		{change: func(st *Status) { // no sidecar
			for i := range st.Workers {
				st.Workers[i].GPUs.State = "unknown"
			}
		}},
		{
			"worker_dead", Fault, "http://w0:30000", "http://w0:30000 is dead: connection refused", 192,
			first(func(w *WorkerStatus) {
				w.State, w.StateSeconds, w.Error = "dead", 192, "connection refused"
				// What else is wrong with it is no news.
				w.GPUs.State, w.Breaker.State, w.Events.LagMS, w.Load.ReportsStale = "dead", "open", 5000, true
			}),
		},
		{
			"worker_gpu_dead", Fault, "http://w0:30000", "http://w0:30000 has a dead GPU: GPU 2: XID 79; GPU 3: XID 48", 0,
			first(func(w *WorkerStatus) {
				w.GPUs = &GPUHealthStatus{State: "dead", Reasons: []string{"GPU 2: XID 79", "GPU 3: XID 48"}}
			}),
		},
		{
			"worker_slow", Warning, "http://w0:30000", "http://w0:30000 does not answer its probes in time: timeout", 41,
			first(func(w *WorkerStatus) { w.State, w.StateSeconds, w.Error = "slow", 41, "timeout" }),
		},
		{
			"worker_probing", Warning, "http://w0:30000", "http://w0:30000 is not ready yet", 3,
			first(func(w *WorkerStatus) { w.State, w.StateSeconds = "probing", 3 }),
		},
		{
			"worker_breaker", Warning, "http://w0:30000", "http://w0:30000 fails requests: its breaker is not closed: 1 fault in a row", 0,
			first(func(w *WorkerStatus) { w.Breaker = BreakerStatus{State: "half-open", Faults: 1} }),
		},
		{
			"worker_gpu_degraded", Warning, "http://w0:30000", "http://w0:30000 has degraded GPUs: throttles", 0,
			first(func(w *WorkerStatus) { w.GPUs = &GPUHealthStatus{State: "degraded", Reasons: []string{"throttles"}} }),
		},
		{"worker_gpu_degraded", Warning, "http://w0:30000", "http://w0:30000 has degraded GPUs", 0, first(func(w *WorkerStatus) { w.GPUs.State = "draining" })},
		{"gpus_unknown", Note, "", "Nothing is known of the GPUs of 1 worker", 0, first(func(w *WorkerStatus) { w.GPUs.State = "unknown" })},
		{
			"worker_double", Warning, "http://w0:30000", "http://w0:30000 is a second name of another worker's process: http://10.0.0.1:30000", 0,
			first(func(w *WorkerStatus) { w.SameAs = "http://10.0.0.1:30000" }),
		},
		{
			"worker_events_aside", Warning, "http://w0:30000", "http://w0:30000 has its events set aside: untrue", 60,
			first(func(w *WorkerStatus) {
				w.Trust.Events = &EventsAside{"untrue", at.Add(-time.Minute).Format(time.RFC3339)}
			}),
		},
		{
			"worker_events_late", Warning, "http://w0:30000", "http://w0:30000 has events behind: 4.2s late", 0,
			first(func(w *WorkerStatus) { w.Events.LagMS = 4200 }),
		},
		{change: first(func(w *WorkerStatus) { w.Events.LagMS = 999 })},
		{
			"worker_events_partial", Warning, "http://w0:30000", "http://w0:30000 has no whole event stream: events are degraded", 0,
			first(func(w *WorkerStatus) { w.Events.State = "degraded" }),
		},
		{change: first(func(w *WorkerStatus) { w.Events.State, w.StateSeconds = "replaying", 30 })},
		{change: first(func(w *WorkerStatus) { w.Events.State = "none" })},
		{
			"worker_load_aside", Warning, "http://w0:30000",
			"http://w0:30000 sends load reports that cannot be right: pool_tokens: too few (it reports 7, and 400000 is used); used_tokens: none (it reports 0, and 12 is used)", 90,
			first(func(w *WorkerStatus) {
				w.Load.SetAside = []SetAsideField{
					{"pool_tokens", "too few", at.Add(-30 * time.Second).Format(time.RFC3339), 7, 4e5},
					{"used_tokens", "none", at.Add(-90 * time.Second).Format(time.RFC3339), 0, 12},
				}
			}),
		},
		{
			"worker_load_old", Note, "http://w0:30000", "http://w0:30000 has sent no load report lately", 12,
			first(func(w *WorkerStatus) { w.Load.ReportsStale, w.Load.AgeSeconds = true, 12 }),
		},
		{
			"worker_draining", Note, "http://w0:30000", "http://w0:30000 is draining: 2 requests in flight; reason: operator, leaving", 9,
			first(func(w *WorkerStatus) {
				w.State, w.StateSeconds, w.Drain, w.InFlight = "draining", 9, []string{"operator", "leaving"}, 2
			}),
		},
		{"no_workers", Fault, "", "No workers: every request is refused", 0, func(st *Status) { st.Workers, st.Models = nil, nil }},
		{
			"none_ready", Fault, "", "None of 2 workers is ready: requests are refused", 5,
			func(st *Status) {
				st.Models[0].Ready = false // which is said already
				for i := range st.Workers {
					st.Workers[i].State, st.Workers[i].StateSeconds = "draining", float64(5+i)
				}
			},
		},
		{"router_draining", Warning, "", "The router is draining: it takes no new requests", 0, func(st *Status) { st.Draining = true }},
		{
			"model_lacking", Fault, "tiny", "tiny cannot be served: no decode worker is ready", 0,
			func(st *Status) { st.Models[0] = ServedModel{Model: "tiny", Lacks: "no decode worker is ready"} },
		},
		{
			"queue", Warning, "", "12 requests in the queue: all workers that could take them are full; 5.5 a second leave it", 3.4,
			func(st *Status) { st.Queue = &QueueStatus{Waiting: 12, OldestSeconds: 3.4, Rate: 5.5} },
		},
		{change: func(st *Status) { st.Queue = nil }},
		{
			"operator_refused", Note, "", "4 requests to the operator API refused since the start: 3 with a wrong key, 1 of foreign web pages", 0,
			func(st *Status) { st.Refused = operator.Counts{NoKey: 5, WrongKey: 3, Foreign: 1} },
		},
		{change: func(st *Status) { st.Refused.NoKey = 5 }}, // a browser asks so before it has the key
		{
			"cluster_down", Warning, "", "The cluster's NATS does not answer: its last state holds", 8,
			func(st *Status) { st.Cluster = &ClusterStatus{AgeSeconds: 8} },
		},
		{
			"source_failed", Warning, "dns", "The source dns of workers cannot answer: no such host", 0,
			func(st *Status) {
				st.Sources = []fleet.SourceStatus{{Name: "flags"}, {Name: "dns", Error: "no such host"}}
			},
		},
		{
			"source_empty", Warning, "dns", "The source dns names no worker that answers; 2 workers that it named before, and that answer, stay in use", 8,
			func(st *Status) { st.Sources = []fleet.SourceStatus{{Name: "dns", Kept: 2, AgeSeconds: 8}} },
		},
		{
			"config_refused", Warning, "w.yaml", "The configuration file was not taken over: unknown key", 0,
			func(st *Status) { st.Config = &ConfigStatus{File: "w.yaml", Error: "unknown key"} },
		},
		{
			"restart_needed", Note, "", "Changed settings wait for a restart: listen, policy", 0,
			func(st *Status) { st.Config = &ConfigStatus{Restart: []string{"listen", "policy"}} },
		},
	}
	seen := map[string]bool{}
	for _, tt := range tests {
		got := told(2, history.Errors{}, tt.change).Concerns
		if tt.kind == "" {
			assert.Empty(t, got)
			continue
		}
		if tt.kind == "none_ready" {
			require.Len(t, got, 3)
			got = got[:1] // both drain besides
		}
		require.Len(t, got, 1, tt.kind)
		assert.NotEmpty(t, got[0].Advice, tt.kind)
		got[0].Advice = ""
		assert.Equal(t, Concern{Kind: tt.kind, Severity: tt.severity, Subject: tt.subject, Text: tt.text, SinceSeconds: tt.seconds}, got[0])
		seen[tt.kind] = true
	}
	for _, k := range workerConcerns {
		assert.True(t, seen["worker_"+k.kind], "no case of %s", k.kind)
	}
}

func TestConcernsOfErrors(t *testing.T) {
	errors := history.Errors{history.Busy: 1, history.Keys: 2, history.Client: 9, history.Worker: 3, history.Router: 4, history.Cut: 5}
	var got []string
	for _, c := range told(1, errors, func(*Status) {}).Concerns {
		assert.NotEmpty(t, c.Advice)
		got = append(got, fmt.Sprintf("%s %s: %s", c.Severity, c.Kind, c.Text))
	}
	assert.Equal(t, []string{
		"fault errors_router: 4 requests failed at the router: no worker answered in the last 5 minutes",
		"fault errors_worker: 3 requests got an error of a worker in the last 5 minutes",
		"fault errors_cut: 5 requests got an answer that a worker broke off in the last 5 minutes",
		"warning errors_busy: 1 request refused with 429 in the last 5 minutes",
		"warning errors_keys: 2 requests refused for a missing or wrong key in the last 5 minutes",
	}, got, "clients' mistakes are theirs")
}

// TestConcernsOfMany: three workers have a line each, and more have one together that names the
// latest; each keeps its own.
func TestConcernsOfMany(t *testing.T) {
	dead := func(n int) *Status {
		return told(10, history.Errors{}, func(st *Status) {
			for i := range n {
				st.Workers[i].State, st.Workers[i].StateSeconds, st.Workers[i].Error = "dead", float64(90-i), fmt.Sprintf("error %d", i)
			}
		})
	}
	require.Len(t, dead(3).Concerns, 3)
	st := dead(7)
	require.Len(t, st.Concerns, 1)
	assert.Equal(t, Concern{
		Kind: "worker_dead", Severity: Fault, Text: "7 workers are dead; the latest is http://w6:30000: error 6", SinceSeconds: 84, Advice: st.Concerns[0].Advice,
	}, st.Concerns[0])
	require.Len(t, st.Workers[0].Concerns, 1)
	assert.Equal(t, "http://w0:30000", st.Workers[0].Concerns[0].Subject)

	late := told(4, history.Errors{}, func(st *Status) {
		for i := range st.Workers {
			st.Workers[i].Events.LagMS = 1000
		}
	})
	require.Len(t, late.Concerns, 1)
	assert.Equal(t, "4 workers have events behind; one is http://w0:30000: 1s late", late.Concerns[0].Text, "nobody knows which is the latest")
}

// TestConcernsWorstFirst: by severity, of one worker and of all.
func TestConcernsWorstFirst(t *testing.T) {
	st := told(3, history.Errors{history.Cut: 1}, func(st *Status) {
		w := &st.Workers[2]
		w.GPUs.State, w.Breaker.State, w.Load.ReportsStale, w.State = "dead", "open", true, "draining"
		st.Workers[1].State = "dead"
		st.Draining = true
	})
	for _, list := range [][]Concern{st.Concerns, st.Workers[2].Concerns} {
		assert.True(t, slices.IsSortedFunc(list, func(a, b Concern) int { return a.Severity.Compare(b.Severity) }), "%v", list)
	}
	var kinds []string
	for _, c := range st.Concerns {
		kinds = append(kinds, c.Kind)
	}
	assert.Equal(t, "worker_dead worker_gpu_dead errors_cut router_draining worker_breaker worker_load_old worker_draining", strings.Join(kinds, " "))
	assert.Negative(t, Note.Compare(""), "none comes last")
}
