package admin

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/warmpath/warmpath/dataplane/admin/history"
)

// Severity is how much a concern matters.
type Severity string

// Severities, worst first.
const (
	Fault   Severity = "fault"   // requests fail, or a worker is lost
	Warning Severity = "warning" // it costs time, or may become a fault
	Note    Severity = "note"    // known, and perhaps meant
)

var severities = []Severity{Fault, Warning, Note, ""}

// Compare orders severities, the worst first and none, "", last.
func (s Severity) Compare(other Severity) int {
	return cmp.Compare(slices.Index(severities, s), slices.Index(severities, other))
}

// Concern is something that needs an operator's attention. Text and Advice are for people and may
// change with any release; Kind does not.
type Concern struct {
	// Kind is worker_ and a state or a fault of workers, or one of the whole router.
	Kind     string   `json:"kind"`
	Severity Severity `json:"severity"`
	// Subject is the id of a rank, or the name of a model or source; empty of a concern about more
	// than three workers or the whole router.
	Subject      string  `json:"subject,omitempty"`
	Text         string  `json:"text"`
	Advice       string  `json:"advice,omitempty"`        // the next step
	SinceSeconds float64 `json:"since_seconds,omitempty"` // how long it holds; 0: not known
}

// workerConcern is a kind of concern about ranks. holds returns why it holds of one, and since how
// many seconds; 0 is not known.
type workerConcern struct {
	kind              string // without worker_
	severity          Severity
	one, many, advice string
	holds             func(w *WorkerStatus, now time.Time) (why string, seconds float64, yes bool)
}

const (
	// behind is the age of an event batch when it was applied: engines publish several a second.
	behind = time.Second
	// settling is how long a new worker takes to connect.
	settling = 30 // s
	// apart is how many workers with one concern are listed each for itself.
	apart = 3
)

// workerConcerns are all kinds, worst first. A kind that is a state has its name.
var workerConcerns = []workerConcern{
	{
		"dead", Fault, "is dead", "are dead",
		"Look at the engine's log and start it again, or take the worker off the list: warmpath remove URL.", inState("dead"),
	},
	{
		"gpu_dead", Fault, "has a dead GPU", "have dead GPUs",
		"Requests go elsewhere. Take the node out of service, and reset or replace the GPU.", gpus("dead"),
	},
	{
		"slow", Warning, "does not answer its probes in time", "do not answer their probes in time",
		"A slow worker gets requests only where no other one is ready. Look at the load and the network of its machine.", inState("slow"),
	},
	{
		"probing", Warning, "is not ready yet", "are not ready yet",
		"If this takes longer than loading the model, look at the engine's log.", inState("probing"),
	},
	{
		"breaker", Warning, "fails requests: its breaker is not closed", "fail requests: their breakers are not closed",
		"Requests go elsewhere, but for a trial now and then. Look at the engine's log.",
		func(w *WorkerStatus, _ time.Time) (string, float64, bool) {
			return Plural(w.Breaker.Faults, "fault") + " in a row", 0, w.Breaker.State != "closed"
		},
	},
	{
		"gpu_degraded", Warning, "has degraded GPUs", "have degraded GPUs",
		"Fewer requests go there. Look at the cooling, power and links of the node.", gpus("degraded", "draining"),
	},
	{
		"double", Warning, "is a second name of another worker's process", "are second names of other workers' processes",
		"Name it once. Where both listen at one address, only one of them gets requests.",
		func(w *WorkerStatus, _ time.Time) (string, float64, bool) {
			return w.SameAs, 0, w.SameAs != ""
		},
	},
	{
		"events_aside", Warning, "has its events set aside", "have their events set aside",
		"Answers tell what is cached meanwhile. Compare model, tokenizer and page size with those of the process that publishes at the worker's endpoint.",
		func(w *WorkerStatus, now time.Time) (string, float64, bool) {
			if w.Trust.Events == nil {
				return "", 0, false
			}
			return w.Trust.Events.Why, since(w.Trust.Events.Since, now), true
		},
	},
	{
		"events_late", Warning, "has events behind", "have events behind",
		"Prefixes count as cached too late. Look at the load of the router's machine and the network to the worker.",
		func(w *WorkerStatus, _ time.Time) (string, float64, bool) {
			lag := time.Duration(w.Events.LagMS * float64(time.Millisecond))
			return lag.Round(10*time.Millisecond).String() + " late", 0, lag >= behind
		},
	},
	{
		"events_partial", Warning, "has no whole event stream", "have no whole event stream",
		"Part of its cache is unknown. Check that the ports in the engine's --kv-events-config can be reached: warmpath doctor URL.",
		func(w *WorkerStatus, _ time.Time) (string, float64, bool) {
			partial := slices.Contains([]string{"connecting", "replaying", "degraded"}, w.Events.State)
			return "events are " + w.Events.State, 0, partial && w.State == "ready" && w.StateSeconds > settling
		},
	},
	{
		"load_aside", Warning, "sends load reports that cannot be right", "send load reports that cannot be right",
		"The router uses its own measurements instead. Check whether the engine's release is a known one.",
		func(w *WorkerStatus, now time.Time) (string, float64, bool) {
			var all []string
			seconds := 0.0
			for _, a := range w.Load.SetAside {
				all = append(all, fmt.Sprintf("%s: %s (it reports %.0f, and %.0f is used)", a.Field, a.Why, a.Reported, a.Instead))
				seconds = max(seconds, since(a.Since, now))
			}
			return strings.Join(all, "; "), seconds, len(all) > 0
		},
	},
	{
		"load_old", Note, "has sent no load report lately", "have sent no load report lately",
		"The router counts its own requests meanwhile. Look at the engine's log and the network to the worker.",
		func(w *WorkerStatus, _ time.Time) (string, float64, bool) {
			return "", w.Load.AgeSeconds, w.Load.ReportsStale
		},
	},
	{
		"draining", Note, "is draining", "are draining",
		"It can be stopped once its requests have ended; warmpath undrain ends the drain of an operator.",
		func(w *WorkerStatus, _ time.Time) (string, float64, bool) {
			return Plural(int(w.InFlight), "request") + " in flight; reason: " + strings.Join(w.Drain, ", "), w.StateSeconds, w.State == "draining"
		},
	},
}

func inState(state string) func(*WorkerStatus, time.Time) (string, float64, bool) {
	return func(w *WorkerStatus, _ time.Time) (string, float64, bool) {
		return w.Error, w.StateSeconds, w.State == state
	}
}

func gpus(states ...string) func(*WorkerStatus, time.Time) (string, float64, bool) {
	return func(w *WorkerStatus, _ time.Time) (string, float64, bool) {
		return strings.Join(w.GPUs.Reasons, "; "), 0, slices.Contains(states, w.GPUs.State)
	}
}

// concerns returns those of one rank, worst first. Nothing but its death matters of a dead one.
func (w *WorkerStatus) concerns(now time.Time) (out []Concern) {
	for i := range workerConcerns {
		k := &workerConcerns[i]
		why, seconds, yes := k.holds(w, now)
		if !yes {
			continue
		}
		text := w.ID + " " + k.one + prefixed(": ", why)
		out = append(out, Concern{"worker_" + k.kind, k.severity, w.ID, text, k.advice, seconds})
		if w.State == "dead" {
			break
		}
	}
	return out
}

// lines returns the concerns of one kind: each for itself, or one for all where they are many.
func (k *workerConcern) lines(workers []WorkerStatus) (out []Concern) {
	for i := range workers {
		for _, c := range workers[i].Concerns {
			if c.Kind == "worker_"+k.kind {
				out = append(out, c)
			}
		}
	}
	if len(out) <= apart {
		return out
	}
	latest := slices.MinFunc(out, func(a, b Concern) int { return cmp.Compare(a.SinceSeconds, b.SinceSeconds) })
	which := "the latest is "
	if latest.SinceSeconds == 0 {
		which = "one is "
	}
	why := strings.TrimPrefix(latest.Text, latest.Subject+" "+k.one)
	latest.Text = fmt.Sprintf("%d workers %s; %s%s%s", len(out), k.many, which, latest.Subject, why)
	latest.Subject = ""
	return []Concern{latest}
}

// gpusUnknown counts the workers without facts about their GPUs among those that are not dead.
func gpusUnknown(workers []WorkerStatus) (n, of int) {
	for i := range workers {
		switch w := &workers[i]; {
		case w.State == "dead":
		case w.GPUs.State == "unknown":
			n, of = n+1, of+1
		default:
			of++
		}
	}
	return n, of
}

// refusals are the concerns about requests of the last minutes, by their kind of error.
var refusals = [...]struct {
	of           history.Kind
	kind         string
	severity     Severity
	text, advice string
}{
	{history.Router, "errors_router", Fault, "failed at the router: no worker answered", "The router's log and warmpath_errors_total tell why."},
	{history.Worker, "errors_worker", Fault, "got an error of a worker", "Look at the logs of the engines that have failed requests."},
	{history.Cut, "errors_cut", Fault, "got an answer that a worker broke off", "Look at the logs of the engines that have failed requests."},
	{
		history.Busy, "errors_busy", Warning, "refused with 429",
		"The workers were full, or a key was at its limit. Add workers, or raise --queue-timeout or the limit.",
	},
	{history.Keys, "errors_keys", Warning, "refused for a missing or wrong key", "Compare the keys of the clients with those of the router."},
}

// concerns returns all that needs attention in st, worst first. errors are those of the last
// history.ErrorTime. A value that is not known is no concern.
func concerns(st *Status, errors history.Errors) []Concern {
	out := []Concern{}
	add := func(kind string, severity Severity, subject, text, advice string, seconds float64) {
		out = append(out, Concern{kind, severity, subject, text, advice, seconds})
	}
	ready, newest := 0, 0.0
	for i := range st.Workers {
		if w := &st.Workers[i]; w.State == "ready" {
			ready++
		} else if newest == 0 || w.StateSeconds < newest {
			newest = w.StateSeconds
		}
	}
	switch {
	case len(st.Workers) == 0:
		add("no_workers", Fault, "", "No workers: every request is refused",
			"Start the router with --worker, --discover or --cluster, or add a worker with POST /workers.", 0)
	case ready == 0:
		add("none_ready", Fault, "", fmt.Sprintf("None of %s is ready: requests are refused", Plural(len(st.Workers), "worker")), "Start the engines. What follows says what each lacks.", newest)
	}
	if st.Draining {
		add("router_draining", Warning, "", "The router is draining: it takes no new requests", "It ends with its last request in flight.", 0)
	}
	for i := range st.Models {
		if m := &st.Models[i]; !m.Ready && ready > 0 {
			add("model_lacking", Fault, m.Model, m.Model+" cannot be served"+prefixed(": ", m.Lacks), "Start a worker of the kind that is missing.", 0)
		}
	}
	for i := range workerConcerns {
		out = append(out, workerConcerns[i].lines(st.Workers)...)
	}
	// Without any sidecar nothing is known of any GPU, and that is as it was meant.
	if unknown, of := gpusUnknown(st.Workers); unknown > 0 && unknown < of {
		add("gpus_unknown", Note, "", "Nothing is known of the GPUs of "+Plural(unknown, "worker"),
			"Others have a sidecar that tells: run warmpath node on these machines too, or look at its log.", 0)
	}
	if q := st.Queue; q != nil && q.Waiting > 0 {
		add("queue", Warning, "", fmt.Sprintf("%s in the queue: all workers that could take them are full; %.1f a second leave it", Plural(q.Waiting, "request"), q.Rate),
			"If this lasts, add workers.", q.OldestSeconds)
	}
	for _, r := range refusals {
		if n := errors[r.of]; n > 0 {
			add(r.kind, r.severity, "", fmt.Sprintf("%s %s in the last %.0f minutes", Plural(n, "request"), r.text, history.ErrorTime.Minutes()), r.advice, 0)
		}
	}
	concernsAround(st, add)
	slices.SortStableFunc(out, func(a, b Concern) int { return a.Severity.Compare(b.Severity) })
	return out
}

// concernsAround adds those about operators, the cluster, sources of workers and the configuration.
func concernsAround(st *Status, add func(kind string, severity Severity, subject, text, advice string, seconds float64)) {
	if n := st.Refused.WrongKey + st.Refused.Foreign; n > 0 {
		add("operator_refused", Note, "", fmt.Sprintf("%s to the operator API refused since the start: %d with a wrong key, %d of foreign web pages", Plural(n, "request"), st.Refused.WrongKey, st.Refused.Foreign),
			"The router's log names the clients of wrong keys.", 0)
	}
	if st.Cluster != nil && !st.Cluster.Up {
		add("cluster_down", Warning, "", "The cluster's NATS does not answer: its last state holds", "Start its NATS servers again, or look at the network to them.", st.Cluster.AgeSeconds)
	}
	for _, s := range st.Sources {
		if s.Error != "" {
			add("source_failed", Warning, s.Name, "The source "+s.Name+" of workers cannot answer: "+s.Error, "Its last workers stay in use.", 0)
		}
		if s.Kept > 0 {
			add("source_empty", Warning, s.Name, fmt.Sprintf("The source %s names no worker that answers; %s that it named before, and that answer, stay in use", s.Name, Plural(s.Kept, "worker")),
				"Look at the source. Where it is right, stop these engines, or remove the workers with DELETE /workers.", s.AgeSeconds)
		}
	}
	if c := st.Config; c != nil && c.Error != "" {
		add("config_refused", Warning, c.File, "The configuration file was not taken over: "+c.Error, "Correct it; the settings before it are in force.", 0)
	}
	if c := st.Config; c != nil && len(c.Restart) > 0 {
		add("restart_needed", Note, "", "Changed settings wait for a restart: "+strings.Join(c.Restart, ", "), "Restart the router when that suits.", 0)
	}
}

func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

// Plural returns a number of things, named by one of them.
func Plural[N int | uint64](n N, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}

// since is the age in seconds of a time that the status has; 0 of one that is not known.
func since(at string, now time.Time) float64 {
	t, err := time.Parse(time.RFC3339, at)
	if err != nil {
		return 0
	}
	return max(now.Sub(t).Seconds(), 0)
}
