package top

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/warmpath/warmpath/dataplane/admin"
	"github.com/warmpath/warmpath/dataplane/admin/history"
)

// level is how much a concern matters.
type level int

const (
	fault level = iota
	warning
	note
)

// concern is something that needs an operator's eye.
type concern struct {
	level       level
	text, since string
}

// ofWorker is a kind of concern about workers. holds returns why it holds of one, and for how many
// seconds; less than 0 is not known.
type ofWorker struct {
	level     level
	one, many string
	holds     func(w *admin.WorkerStatus, now time.Time) (why string, begun float64, yes bool)
}

const (
	// behind is the age of an event batch when it was applied: engines publish several a second.
	behind = 1000 // ms
	// settling is how long a new worker takes to connect.
	settling = 30 // s
	// each is how many workers of one concern have a line of their own.
	each = 3
)

// ofWorkers are all kinds, worst first. The console has the same.
var ofWorkers = []ofWorker{
	{fault, "is dead", "are dead", inState("dead")},
	{fault, "has a dead GPU", "have dead GPUs", gpus("dead")},
	{warning, "does not answer its probes in time", "do not answer their probes in time", inState("slow")},
	{warning, "is not ready yet", "are not ready yet", inState("probing")},
	{warning, "fails requests: its breaker is not closed", "fail requests: their breakers are not closed", func(w *admin.WorkerStatus, _ time.Time) (string, float64, bool) {
		return plural(w.Breaker.Faults, "fault") + " in a row", -1, w.State != "dead" && w.Breaker.State != "closed"
	}},
	{warning, "has degraded GPUs", "have degraded GPUs", gpus("degraded", "draining")},
	{warning, "tells other than its answers: its events are set aside", "have their events set aside", func(w *admin.WorkerStatus, now time.Time) (string, float64, bool) {
		if w.State == "dead" || w.Trust.Events == nil {
			return "", 0, false
		}
		begun := -1.0
		if at, err := time.Parse(time.RFC3339, w.Trust.Events.Since); err == nil {
			begun = max(now.Sub(at).Seconds(), 0)
		}
		return w.Trust.Events.Why, begun, true
	}},
	{warning, "has events behind", "have events behind", func(w *admin.WorkerStatus, _ time.Time) (string, float64, bool) {
		return seconds(w.Events.LagMS/1000) + " late", -1, w.State != "dead" && w.Events.LagMS >= behind
	}},
	{warning, "has no whole event stream", "have no whole event stream", func(w *admin.WorkerStatus, _ time.Time) (string, float64, bool) {
		partial := slices.Contains([]string{"connecting", "replaying", "degraded"}, w.Events.State)
		return "events are " + w.Events.State, -1, partial && w.State == "ready" && w.StateSeconds > settling
	}},
	{warning, "sends load reports that cannot be right", "send load reports that cannot be right", func(w *admin.WorkerStatus, _ time.Time) (string, float64, bool) {
		var why []string
		for _, a := range w.Load.SetAside {
			why = append(why, a.Field+": "+a.Why)
		}
		return strings.Join(why, "; "), -1, w.State != "dead" && len(why) > 0
	}},
	{note, "has sent no load report lately", "have sent no load report lately", func(w *admin.WorkerStatus, _ time.Time) (string, float64, bool) {
		return "the last one " + age(w.Load.AgeSeconds) + " ago", -1, w.State != "dead" && w.Load.ReportsStale
	}},
	{note, "is draining", "are draining", func(w *admin.WorkerStatus, _ time.Time) (string, float64, bool) {
		return strings.Join(w.Drain, ", ") + ": " + plural(int(w.InFlight), "request") + " in flight", w.StateSeconds, w.State == "draining"
	}},
}

func inState(state string) func(*admin.WorkerStatus, time.Time) (string, float64, bool) {
	return func(w *admin.WorkerStatus, _ time.Time) (string, float64, bool) {
		return w.Error, w.StateSeconds, w.State == state
	}
}

func gpus(states ...string) func(*admin.WorkerStatus, time.Time) (string, float64, bool) {
	return func(w *admin.WorkerStatus, _ time.Time) (string, float64, bool) {
		return strings.Join(w.GPUs.Reasons, "; "), -1, w.State != "dead" && slices.Contains(states, w.GPUs.State)
	}
}

// lines returns the concerns of one kind: a line for each worker, or one for all.
func (k *ofWorker) lines(workers []admin.WorkerStatus, now time.Time) (out []concern) {
	var latest concern
	youngest, n := -1.0, 0
	for i := range workers {
		w := &workers[i]
		why, begun, yes := k.holds(w, now)
		if !yes {
			continue
		}
		n++
		c := concern{level: k.level, text: w.ID + " " + k.one + prefixed(": ", why)}
		if begun >= 0 {
			c.since = "for " + age(begun)
		}
		if len(out) < each {
			out = append(out, c)
		}
		if n == 1 || begun < youngest {
			youngest, latest = begun, concern{text: "the latest is " + w.ID + prefixed(": ", why), since: c.since}
		}
	}
	if n <= each {
		return out
	}
	return []concern{{level: k.level, text: fmt.Sprintf("%d workers %s; %s", n, k.many, latest.text), since: latest.since}}
}

func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

// errorRows are the last five minutes, in rows of five seconds.
const errorRows = 60

// kindsOf are the errors of a history in words.
func kindsOf(s *history.Series) []struct {
	level level
	text  string
	rows  []history.Value
} {
	return []struct {
		level level
		text  string
		rows  []history.Value
	}{
		{fault, "failed at the router: no worker answered", s.Router},
		{fault, "got an error of a worker", s.Worker},
		{fault, "got an answer that a worker broke off", s.Cut},
		{warning, "refused with 429: the workers are full", s.Busy},
		{warning, "refused for a missing or wrong key", s.Keys},
	}
}

// concerns returns all that needs an operator's eye, worst first.
func concerns(r *Reading) (out []concern) {
	st := &r.Status
	add := func(l level, text, since string) { out = append(out, concern{l, text, since}) }
	ready, longest := 0, 0.0
	for i := range st.Workers {
		if st.Workers[i].State == "ready" {
			ready++
		}
		longest = max(longest, st.Workers[i].StateSeconds)
	}
	switch {
	case len(st.Workers) == 0:
		add(fault, "No workers: every request is refused. Start the router with --worker, --discover or --cluster", "")
	case ready == 0:
		add(fault, fmt.Sprintf("None of %s is ready: requests are refused", plural(len(st.Workers), "worker")), "")
	}
	if st.Draining {
		add(warning, "The router is draining: it takes no new requests", "")
	}
	if ready > 0 {
		for _, m := range st.Models {
			if !m.Ready {
				add(fault, m.Model+" cannot be served"+prefixed(": ", m.Lacks), "")
			}
		}
	}
	for i := range ofWorkers {
		out = append(out, ofWorkers[i].lines(st.Workers, r.At)...)
	}
	if q := st.Queue; q != nil && q.Waiting > 0 {
		add(warning, fmt.Sprintf("%s in the queue: all workers that could take them are full; %.1f a second leave it", plural(q.Waiting, "request"), q.Rate),
			"oldest "+age(q.OldestSeconds))
	}
	for _, k := range kindsOf(&r.History.Recent) {
		if n := int(sum(last(k.rows, errorRows))); n > 0 {
			add(k.level, plural(n, "request")+" "+k.text, "in 5 min")
		}
	}
	if n := st.Refused.WrongKey + st.Refused.Foreign; n > 0 {
		add(note, fmt.Sprintf("%s to the operator API refused: %d with a wrong key, %d of foreign web pages", plural(int(n), "request"), st.Refused.WrongKey, st.Refused.Foreign), "")
	}
	if st.Cluster != nil && !st.Cluster.Up {
		add(warning, "The cluster's NATS does not answer: its last state holds", "for "+age(st.Cluster.AgeSeconds))
	}
	for _, s := range st.Sources {
		if s.Error != "" {
			add(warning, "The source "+s.Name+" of workers cannot answer: "+s.Error, "")
		}
	}
	if c := st.Config; c != nil && c.Error != "" {
		add(warning, "The configuration file was not taken over: "+c.Error, "")
	}
	if c := st.Config; c != nil && len(c.Restart) > 0 {
		add(note, "Changed settings wait for a restart: "+strings.Join(c.Restart, ", "), "")
	}
	slices.SortStableFunc(out, func(a, b concern) int { return int(a.level - b.level) })
	return out
}
