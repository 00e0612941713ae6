package request

import (
	"encoding/json"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/kvtier/directory"
	"github.com/warmpath/warmpath/dataplane/prompt/lint"
	"github.com/warmpath/warmpath/dataplane/prompt/tokens"
	"github.com/warmpath/warmpath/dataplane/routing"
	"github.com/warmpath/warmpath/dataplane/routing/peers"
)

// Status is the body of GET /status: what the console and `warmpath up` show.
type Status struct {
	Version       string       `json:"version"`
	UptimeSeconds float64      `json:"uptime_seconds"`
	Policy        string       `json:"policy"`
	Draining      bool         `json:"draining"`
	Requests      uint64       `json:"requests"` // ended, errors included
	InFlight      int64        `json:"in_flight"`
	Errors        uint64       `json:"errors"`
	PromptTokens  uint64       `json:"prompt_tokens"` // of answers that reported usage
	HitTokens     uint64       `json:"hit_tokens"`
	HitRate       float64      `json:"hit_rate"` // hit_tokens / prompt_tokens
	Accuracy      float64      `json:"accuracy"` // share of answers with at least 0.8 of the overlap expected by events
	Compared      uint64       `json:"compared"` // answers that Accuracy is taken over
	Index         IndexStatus  `json:"index"`
	Approx        ApproxStatus `json:"approx"`
	// Queue is nil where requests never wait at the router.
	Queue *QueueStatus `json:"queue,omitempty"`
	// Lint is what sampled prompts show; nil where none are sampled, or not enough yet.
	Lint *lint.Report `json:"lint,omitempty"`
	// Tokens says of each model who makes its token ids.
	Tokens        []tokens.ModelStatus `json:"tokens,omitempty"`
	HugePageBytes int64                `json:"huge_page_bytes"` // memory of the process in huge pages
	Workers       []WorkerStatus       `json:"workers"`
	// Models says of each model that a worker serves whether a request for it would be taken.
	Models []ServedModel `json:"models"`
	// Replicas is what is known of other routers; nil where this one never asks or tells them.
	Replicas *peers.Status `json:"replicas,omitempty"`
	// Tiers is what is known of the KV tiers of nodes; nil where the router is of no cluster.
	Tiers *directory.Status `json:"tiers,omitempty"`
	// Cluster is nil where the router is of none.
	Cluster *ClusterStatus `json:"cluster,omitempty"`
	// Sources is where workers are from.
	Sources []SourceStatus `json:"sources,omitempty"`
	// Config is what became of the configuration file; nil where none is known.
	Config *ConfigStatus `json:"config,omitempty"`
}

// IndexStatus is the index's size.
type IndexStatus struct {
	Blocks int64 `json:"blocks"`
	Nodes  int64 `json:"nodes"`
	Bytes  int64 `json:"bytes"`

	MaxBytes int64  `json:"max_bytes"`      // 0: no bound
	Evicted  uint64 `json:"evicted_blocks"` // block copies that the bound cost
}

// ApproxStatus is the approximate tree's size, and how good it is.
type ApproxStatus struct {
	Bytes     int64   `json:"bytes"`
	MaxBytes  int64   `json:"max_bytes"`
	Evictions int64   `json:"evictions"` // because of max_bytes
	Accuracy  float64 `json:"accuracy"`  // as above, where the overlap was expected by earlier answers
	Compared  uint64  `json:"compared"`
}

// WorkerStatus is one rank of one worker.
type WorkerStatus struct {
	ID            string           `json:"id"`
	URL           string           `json:"url"`
	Rank          int              `json:"rank"`
	Role          string           `json:"role"`                // aggregated, prefill or decode
	Bootstrap     string           `json:"bootstrap,omitempty"` // of a prefill worker, host:port where decode workers meet it
	State         string           `json:"state"`
	Drain         []string         `json:"drain,omitempty"`   // who wants it to get nothing new: operator, source, leaving
	Sources       []string         `json:"sources,omitempty"` // that name it
	StateSeconds  float64          `json:"state_seconds"`
	Error         string           `json:"error,omitempty"`
	Model         string           `json:"model"`
	Engine        string           `json:"engine,omitempty"` // what it is, where it is no SGLang
	Version       string           `json:"version,omitempty"`
	PageSize      int              `json:"page_size"`
	InFlight      int64            `json:"in_flight"`
	PendingTokens int64            `json:"pending_tokens"`
	Requests      uint64           `json:"requests"`
	Failed        uint64           `json:"failed"`
	Share         float64          `json:"share"` // of all requests
	PromptTokens  uint64           `json:"prompt_tokens"`
	HitTokens     uint64           `json:"hit_tokens"`
	HitRate       float64          `json:"hit_rate"`
	Overlap       string           `json:"overlap"` // exact or approximate: what prompts with known ids are routed by
	Blocks        int              `json:"blocks"`
	ApproxTokens  int64            `json:"approx_tokens"` // believed to be held, by what was sent there
	Events        *EventsStatus    `json:"events"`
	Breaker       BreakerStatus    `json:"breaker"`
	Load          LoadStatus       `json:"load"`
	Trust         TrustStatus      `json:"trust"`
	GPUs          *GPUHealthStatus `json:"gpus"`
}

// EventsStatus is how well a rank's cache is known.
type EventsStatus struct {
	State           string  `json:"state"` // connecting, replaying, live, unproven, degraded, restored or none
	Sequence        uint64  `json:"sequence"`
	LagMS           float64 `json:"lag_ms"`
	Batches         uint64  `json:"batches"`
	Gaps            uint64  `json:"gaps"`
	Lost            uint64  `json:"lost"`
	Replayed        uint64  `json:"replayed"`
	Restarts        uint64  `json:"restarts"`
	Mutes           uint64  `json:"mutes"` // times that prompts were computed and no event told of them
	Malformed       uint64  `json:"malformed"`
	UnknownEvents   uint64  `json:"unknown_events"`
	UnknownFields   uint64  `json:"unknown_fields"`
	UnknownParents  uint64  `json:"unknown_parents"`
	UnknownRemovals uint64  `json:"unknown_removals"`
	BeyondBudget    uint64  `json:"beyond_budget"` // stores that the index's budget has no place for
}

// Status returns the router's state now.
func (s *Server) Status() Status {
	index, t := s.Index.Stats(), &s.metrics.totals
	st := Status{
		Version: s.cfg.Version, UptimeSeconds: time.Since(s.started).Seconds(), Policy: s.Router.Policy().Name(),
		Draining: s.draining.Load(), Requests: t.requests.Load(), InFlight: s.inFlight.Load(), Errors: t.errors.Load(),
		Compared: t.exact.compared.Load(), Accuracy: t.exact.share(),
		Index: IndexStatus{
			Blocks: int64(index.Entries), Nodes: int64(index.Runs), Bytes: int64(index.Bytes),
			MaxBytes: int64(index.MaxBytes), Evicted: index.EvictedBlocks,
		},
		Approx:   s.approxStatus(),
		Queue:    s.queueStatus(),
		Lint:     s.lintReport(),
		Replicas: s.replicaStatus(),
		Cluster:  s.clusterStatus(),
		Tokens:   s.Models.Status(),
		Workers:  []WorkerStatus{},
		Models:   s.servedModels(),
	}
	if s.HugeBytes != nil {
		st.HugePageBytes = s.HugeBytes()
	}
	st.Sources = s.Fleet.Sources()
	if s.Tiers != nil {
		tiers := s.Tiers()
		st.Tiers = &tiers
	}
	if s.ConfigStatus != nil {
		config := s.ConfigStatus()
		st.Config = &config
	}
	var answered uint64
	for _, r := range s.Registry.Snapshot().Ranks {
		w := s.rankStatus(r)
		answered += w.Requests
		st.PromptTokens += w.PromptTokens
		st.HitTokens += w.HitTokens
		st.Workers = append(st.Workers, w)
	}
	st.HitRate = ratio(st.HitTokens, st.PromptTokens)
	for i := range st.Workers {
		st.Workers[i].Share = ratio(st.Workers[i].Requests, answered)
	}
	return st
}

func (s *Server) approxStatus() ApproxStatus {
	t := &s.metrics.totals.approximate
	st := ApproxStatus{Accuracy: t.share(), Compared: t.compared.Load()}
	if a := s.Router.Approx; a != nil {
		tree := a.Stats()
		st.Bytes, st.MaxBytes, st.Evictions = tree.Bytes, tree.MaxBytes, tree.EvictedMemory
	}
	return st
}

func (s *Server) rankStatus(r *worker.Rank) WorkerStatus {
	w := r.Worker
	st := WorkerStatus{
		ID: r.ID(), URL: w.URL, Rank: r.DPRank, Role: w.Role().String(), Bootstrap: bootstrapOf(w), State: w.State().String(), StateSeconds: time.Since(w.Since()).Seconds(),
		Error: w.LastError(), InFlight: r.Load.InFlight(), PendingTokens: r.Load.Pending(),
		Requests: r.Count.Requests.Load(), Failed: r.Count.Errors.Load(),
		PromptTokens: r.Count.PromptTokens.Load(), HitTokens: r.Count.CachedTokens.Load(),
		Overlap: routing.Answers.String(), Events: &EventsStatus{State: "none"},
	}
	st.Drain, st.Sources = w.DrainReasons(), s.Fleet.Origins(w.URL)
	now := time.Now()
	seen := r.Load.View(now)
	st.Load, st.Trust, st.Breaker = loadStatus(r, &seen), trustStatus(r, now), breakerStatus(w, now)
	st.GPUs = gpuHealth(w, now)
	if r.Exact() {
		st.Overlap = routing.Events.String()
	}
	if a := s.Router.Approx; a != nil {
		st.ApproxTokens = a.Held(r)
	}
	st.HitRate = ratio(st.HitTokens, st.PromptTokens)
	if info := w.Info(); info != nil {
		st.Model, st.Engine, st.Version, st.PageSize = info.Model(), info.Engine, info.Version, info.PageSize
	}
	if stream := s.Ingest.Stream(r); stream != nil {
		e := &stream.Stats
		st.Blocks = stream.Blocks()
		st.Events = &EventsStatus{
			State: e.State().String(), Sequence: e.Sequence.Load(), LagMS: float64(e.Lag().Microseconds()) / 1000,
			Batches: e.Batches.Load(), Gaps: e.Gaps.Load(), Lost: e.Lost.Load(), Replayed: e.Replayed.Load(),
			Restarts: e.Restarts.Load(), Mutes: e.Mutes.Load(), Malformed: e.Malformed.Load(), UnknownEvents: e.UnknownEvents.Load(),
			UnknownFields: e.UnknownFields.Load(), UnknownParents: e.UnknownParents.Load(),
			UnknownRemovals: e.UnknownRemovals.Load(), BeyondBudget: e.BeyondBudget.Load(),
		}
	}
	return st
}

// share is how many of the compared were accurate.
func (c *comparison) share() float64 { return ratio(c.accurate.Load(), c.compared.Load()) }

func ratio(a, b uint64) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}

// serveJSON answers with v.
func (s *Server) serveJSON(ctx *fasthttp.RequestCtx, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		s.fail(ctx, errorFor(err, ""))
		return
	}
	ctx.SetStatusCode(status)
	ctx.SetContentType("application/json")
	ctx.SetBody(append(body, '\n'))
	s.compressOwn(ctx)
}
