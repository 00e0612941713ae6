package admin

import (
	"time"

	"github.com/warmpath/warmpath/dataplane/admin/history"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/ingest"
	"github.com/warmpath/warmpath/dataplane/routing"
)

// WorkerStatus is the state of one rank of one worker.
type WorkerStatus struct {
	RankIdentity
	State string `json:"state"`
	// Reasons of its drain: operator, source, leaving.
	Drain []string `json:"drain,omitempty"`
	// Of its URL or its node: once removed, it is not added again.
	Cordoned     bool     `json:"cordoned,omitempty"`
	Sources      []string `json:"sources,omitempty"` // that list it
	SameAs       string   `json:"same_as,omitempty"` // URL of a worker that is the same process
	StateSeconds float64  `json:"state_seconds"`
	Error        string   `json:"error,omitempty"`
	// Concerns are those about it, worst first.
	Concerns []Concern `json:"concerns,omitempty"`
	EngineStatus
	RankTraffic
	// Exact or approximate: the source of overlap for prompts with known ids.
	Overlap      string `json:"overlap"`
	Blocks       int    `json:"blocks"`
	ApproxTokens int64  `json:"approx_tokens"` // of the approximate tree
	// Branches of live sessions with their last request here, and the tokens here that sessions are
	// expected to need again.
	Sessions   int              `json:"sessions"`
	LiveTokens float64          `json:"live_tokens"`
	Events     *EventsStatus    `json:"events"`
	Breaker    BreakerStatus    `json:"breaker"`
	Load       LoadStatus       `json:"load"`
	Trust      TrustStatus      `json:"trust"`
	GPUs       *GPUHealthStatus `json:"gpus"`
}

// RankIdentity names a rank.
type RankIdentity struct {
	ID   string `json:"id"`
	URL  string `json:"url"`
	Rank int    `json:"rank"`
	Node string `json:"node,omitempty"` // of the cluster, where that is known
	Role string `json:"role"`           // regular, prefill or decode
	// Of a prefill worker: host:port where decode workers find it.
	Bootstrap string `json:"bootstrap,omitempty"`
}

// EngineStatus is a worker's description of itself.
type EngineStatus struct {
	Model    string `json:"model"`
	Engine   string `json:"engine,omitempty"` // its name, where it is not SGLang
	Version  string `json:"version,omitempty"`
	PageSize int    `json:"page_size"`
}

// RankTraffic counts the requests of this router at a rank.
type RankTraffic struct {
	InFlight      int64  `json:"in_flight"`
	PendingTokens int64  `json:"pending_tokens"`
	Requests      uint64 `json:"requests"`
	// Requests a second, over the last row of the history; null before there is one.
	RequestRate  history.Value `json:"requests_per_second"`
	Failed       uint64        `json:"failed"`
	Share        float64       `json:"share"` // of all requests
	PromptTokens uint64        `json:"prompt_tokens"`
	HitTokens    uint64        `json:"hit_tokens"`
	HitRate      float64       `json:"hit_rate"`
}

// EventsStatus is the state of a rank's event stream.
type EventsStatus struct {
	// Connecting, replaying, live, unproven, degraded, restored or none.
	State    string  `json:"state"`
	Sequence uint64  `json:"sequence"`
	LagMS    float64 `json:"lag_ms"`
	Batches  uint64  `json:"batches"`
	Gaps     uint64  `json:"gaps"`
	Lost     uint64  `json:"lost"`
	Replayed uint64  `json:"replayed"`
	// Messages that came by replay and again live.
	Duplicates uint64 `json:"duplicates"`
	Restarts   uint64 `json:"restarts"`
	// Lost connections to the rank's publisher, and the first one if it failed.
	Disconnects uint64 `json:"disconnects"`
	// Times that the rank was learnt again, the first included.
	Resyncs uint64 `json:"resyncs"`
	// Times that prompts were computed and no event came of them.
	Mutes           uint64 `json:"mutes"`
	Malformed       uint64 `json:"malformed"`
	UnknownEvents   uint64 `json:"unknown_events"`
	UnknownFields   uint64 `json:"unknown_fields"`
	UnknownParents  uint64 `json:"unknown_parents"`
	UnknownRemovals uint64 `json:"unknown_removals"`
	BeyondBudget    uint64 `json:"beyond_budget"` // stores beyond the index's bound
	// Removals of unknown blocks, of a rank with evicted blocks.
	EvictedRemovals uint64 `json:"evicted_removals"`
}

// ranks returns the state of all ranks, and adds their token counts to total.
func (s *statusReport) ranks(total *TrafficStatus, known *routing.SessionStats) []WorkerStatus {
	all := []WorkerStatus{}
	var answered uint64
	nodes, cordoned := s.nodes(), map[string]bool{}
	for _, m := range s.Fleet.Marks() {
		cordoned[worker.NormalURL(m.Target)] = m.Cordon
	}
	for _, r := range s.Registry.Snapshot().Ranks {
		w := s.rank(r)
		w.Node = nodes[w.URL]
		w.Cordoned = cordoned[w.URL] || cordoned[w.Node]
		w.Sessions, w.LiveTokens = s.Router.Known.OfRank(known, r)
		answered += w.Requests
		total.PromptTokens += w.PromptTokens
		total.HitTokens += w.HitTokens
		all = append(all, w)
	}
	total.HitRate = ratio(total.HitTokens, total.PromptTokens)
	now := time.Now()
	for i := range all {
		all[i].Concerns = all[i].concerns(now)
		all[i].Share = ratio(all[i].Requests, answered)
	}
	return all
}

// nodes returns the node of each worker of the cluster.
func (s *statusReport) nodes() map[string]string {
	nodes := map[string]string{}
	if s.Cluster == nil {
		return nodes
	}
	v := s.Cluster.View()
	for i := range v.Nodes {
		for j := range v.Nodes[i].Workers {
			nodes[worker.NormalURL(v.Nodes[i].Workers[j].URL)] = v.Nodes[i].Name
		}
	}
	return nodes
}

func (s *statusReport) rank(r *worker.Rank) WorkerStatus {
	w, now := r.Worker, time.Now()
	seen := r.Load.View(now)
	st := WorkerStatus{
		RankIdentity: RankIdentity{
			ID: r.ID(), URL: w.URL, Rank: r.DPRank, Role: w.Role().String(), Bootstrap: bootstrapOf(w),
		},
		State: w.State().String(), StateSeconds: time.Since(w.StateSince()).Seconds(),
		Error: w.LastError(),
		Drain: w.DrainReasons(), Sources: s.Fleet.Origins(w.URL), SameAs: w.Double(),
		RankTraffic: s.rankTraffic(r),
		Overlap:     routing.Answers.String(), Events: &EventsStatus{State: "none"},
		Load: loadStatus(r, &seen), Trust: trustStatus(r, now), Breaker: breakerStatus(w, now),
		GPUs: gpuHealth(w, now),
	}
	if r.Exact() {
		st.Overlap = routing.Events.String()
	}
	if a := s.Router.Approx; a != nil {
		st.ApproxTokens = a.Held(r)
	}
	if info := w.Info(); info != nil {
		st.EngineStatus = EngineStatus{
			Model: info.Model(), Engine: info.Engine, Version: info.Version, PageSize: info.PageSize,
		}
	}
	if stream := s.Ingest.Stream(r); stream != nil {
		st.Blocks, st.Events = stream.Blocks(), eventsStatus(&stream.Stats)
	}
	return st
}

func (s *statusReport) rankTraffic(r *worker.Rank) RankTraffic {
	st := RankTraffic{
		InFlight: r.Load.InFlight(), PendingTokens: r.Load.Pending(),
		Requests: r.Count.Requests.Load(), RequestRate: s.past.rate(r), Failed: r.Count.Errors.Load(),
		PromptTokens: r.Count.PromptTokens.Load(), HitTokens: r.Count.CachedTokens.Load(),
	}
	st.HitRate = ratio(st.HitTokens, st.PromptTokens)
	return st
}

func eventsStatus(e *ingest.Stats) *EventsStatus {
	return &EventsStatus{
		State: e.State().String(), Sequence: e.Sequence.Load(),
		LagMS:   float64(e.Lag().Microseconds()) / 1000,
		Batches: e.Batches.Load(), Gaps: e.Gaps.Load(), Lost: e.Lost.Load(),
		Replayed: e.Replayed.Load(), Duplicates: e.Duplicates.Load(),
		Restarts: e.Restarts.Load(), Disconnects: e.Disconnects.Load(), Resyncs: e.Resyncs.Load(), Mutes: e.Mutes.Load(), Malformed: e.Malformed.Load(),
		UnknownEvents: e.UnknownEvents.Load(),
		UnknownFields: e.UnknownFields.Load(), UnknownParents: e.UnknownParents.Load(),
		UnknownRemovals: e.UnknownRemovals.Load(), BeyondBudget: e.BeyondBudget.Load(),
		EvictedRemovals: e.EvictedRemovals.Load(),
	}
}

// bootstrapOf returns the address where decode workers find a prefill worker; "" of others.
func bootstrapOf(w *worker.Worker) string {
	if b := w.Bootstrap(); b.Port != 0 {
		return b.Addr()
	}
	return ""
}
