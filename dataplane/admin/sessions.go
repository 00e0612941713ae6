package admin

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/warmpath/warmpath/dataplane/routing"
)

// SessionStatus counts the sessions of agents and users.
type SessionStatus struct {
	// With a request in the last hour.
	Live     int `json:"live"`
	Named    int `json:"named"`    // of Live, named by their clients
	Branches int `json:"branches"` // of Live, main branches and those of sub-agents
	Running  int `json:"running"`  // of Branches, with a request in flight
	// Median time from an answer to the next turn, rounded up to a power of two.
	Pause float64 `json:"pause_seconds"`
	// AllRouters is the number of live sessions of all routers, as far as this one is told of their
	// prompts; absent where it is alone.
	AllRouters int `json:"all_routers,omitempty"`
	// Requests since the start, by the source of their session and by their place in it.
	Sources map[string]uint64 `json:"sources"`
	Turns   map[string]uint64 `json:"turns"`
}

// sessionStatus returns the state of the known sessions.
func sessionStatus(st *routing.SessionStats) *SessionStatus {
	out := &SessionStatus{
		Live: st.Sessions, Named: st.Named, Branches: st.Branches, Running: st.Running,
		Pause:   st.Pause.Seconds(),
		Sources: map[string]uint64{}, Turns: map[string]uint64{},
	}
	for i, n := range st.Sources {
		if n > 0 {
			out.Sources[routing.SessionSource(i).String()] = n
		}
	}
	for i, n := range st.Kinds {
		if n > 0 {
			out.Turns[routing.TurnKind(i).String()] = n
		}
	}
	return out
}

var (
	descSessions = desc("sessions",
		"Sessions with a request in the last hour, by whether their clients name them.", "named")
	descSessionBranches = desc("session_branches",
		"Branches of these sessions: main ones and those of sub-agents.")
	descSessionRequests = desc("session_requests_total",
		"Requests by the source that told their session.", "source")
	descSessionPauses = desc("session_pause_seconds",
		"Time from an answer to the next turn of its session.")
	descSessionTurns = desc("session_turns_total",
		"Requests by their place in their session: first, next, again (sent once more), "+
			"rewritten, branch, or none.", "kind")
)

func (out sink) sessions(st *routing.SessionStats) {
	out.gauge(descSessions, float64(st.Named), "yes")
	out.gauge(descSessions, float64(st.Sessions-st.Named), "no")
	out.gauge(descSessionBranches, float64(st.Branches))
	for i, n := range st.Sources {
		out.counter(descSessionRequests, float64(n), routing.SessionSource(i).String())
	}
	for i, n := range st.Kinds {
		out.counter(descSessionTurns, float64(n), routing.TurnKind(i).String())
	}
	out.pauses(st)
}

// pauses sends the histogram of pauses. Their sum is unknown.
func (out sink) pauses(st *routing.SessionStats) {
	buckets, count := map[float64]uint64{}, uint64(0)
	for i, bound := range routing.PauseBounds() {
		count += st.Pauses[i]
		buckets[bound.Seconds()] = count
	}
	count += st.Pauses[len(st.Pauses)-1]
	out.ch <- prometheus.MustNewConstHistogram(descSessionPauses, count, 0, buckets)
}
