package admin

import (
	"time"

	"github.com/warmpath/warmpath/dataplane/admin/history"
	"github.com/warmpath/warmpath/dataplane/cluster"
	"github.com/warmpath/warmpath/dataplane/fleet"
	"github.com/warmpath/warmpath/dataplane/kvtier/directory"
	"github.com/warmpath/warmpath/dataplane/operator"
	"github.com/warmpath/warmpath/dataplane/prompt/lint"
	"github.com/warmpath/warmpath/dataplane/prompt/tokens"
	"github.com/warmpath/warmpath/dataplane/request"
	"github.com/warmpath/warmpath/dataplane/routing/peers"
	"github.com/warmpath/warmpath/radix"
)

// Status is the body of GET /status, which the console and `warmpath up` show.
type Status struct {
	Version       string  `json:"version"`
	UptimeSeconds float64 `json:"uptime_seconds"`
	Policy        string  `json:"policy"`
	Draining      bool    `json:"draining"`
	// Concerns are all that needs an operator's attention, worst first.
	Concerns []Concern `json:"concerns"`
	TrafficStatus
	Index  IndexStatus  `json:"index"`
	Approx ApproxStatus `json:"approx"`
	// Queue is nil where requests never wait at the router.
	Queue *QueueStatus `json:"queue,omitempty"`
	// Sessions is nil where they are not known.
	Sessions *SessionStatus `json:"sessions,omitempty"`
	// Lint reports on sampled prompts; nil where none are sampled, or not enough yet.
	Lint *lint.Report `json:"lint,omitempty"`
	// Tokens has the source of token ids of each model.
	Tokens []tokens.ModelStatus `json:"tokens,omitempty"`
	// Conversions has the proofs of APIs whose bodies are read as the chats that workers make of
	// them; empty before the first such request.
	Conversions []request.ConversionStatus `json:"conversions,omitempty"`
	Workers     []WorkerStatus             `json:"workers"`
	Models      []ServedModel              `json:"models"`
	MemberStatus
	Sources []fleet.SourceStatus `json:"sources,omitempty"`
	// Marks are the drains and cordons of operators, of workers that are away too. A worker that is
	// drained at this router alone has none.
	Marks []cluster.Mark `json:"marks,omitempty"`
	// Nil where there is no configuration file.
	Config *ConfigStatus `json:"config,omitempty"`
	// Refused counts the requests that the operator API refused.
	Refused operator.Counts `json:"operator_refused"`
}

// MemberStatus is the router's part in a cluster of routers and nodes.
type MemberStatus struct {
	// Replicas is nil where the router exchanges nothing with other routers.
	Replicas *peers.Status `json:"replicas,omitempty"`
	// Tiers is the tier directory; nil where the router is in no cluster.
	Tiers   *directory.Status `json:"tiers,omitempty"`
	Cluster *ClusterStatus    `json:"cluster,omitempty"` // nil where the router is in none
}

// TrafficStatus counts the requests of all workers together.
type TrafficStatus struct {
	Requests     uint64  `json:"requests"` // ended, errors included
	InFlight     int64   `json:"in_flight"`
	Errors       uint64  `json:"errors"`        // answers of 429 or 5xx, and answers cut off
	ClientErrors uint64  `json:"client_errors"` // other answers of 4xx
	PromptTokens uint64  `json:"prompt_tokens"` // of answers that reported usage
	HitTokens    uint64  `json:"hit_tokens"`
	HitRate      float64 `json:"hit_rate"` // hit_tokens / prompt_tokens
	// Share of answers with at least 0.8 of the overlap that events had promised.
	Accuracy float64 `json:"accuracy"`
	Compared uint64  `json:"compared"` // answers behind Accuracy
}

// IndexStatus is the size of the index.
type IndexStatus struct {
	Blocks int64 `json:"blocks"`
	Nodes  int64 `json:"nodes"`
	Bytes  int64 `json:"bytes"`

	MaxBytes int64  `json:"max_bytes"`      // 0: no bound
	Evicted  uint64 `json:"evicted_blocks"` // block copies evicted to keep the bound
}

// ApproxStatus is the size and accuracy of the approximate tree.
type ApproxStatus struct {
	Bytes     int64 `json:"bytes"`
	MaxBytes  int64 `json:"max_bytes"`
	Evictions int64 `json:"evictions"` // because of max_bytes
	// As in TrafficStatus, of overlap that earlier answers had promised.
	Accuracy float64 `json:"accuracy"`
	Compared uint64  `json:"compared"`
}

// statusReport makes the body of GET /status.
type statusReport struct {
	Parts
	version   string
	started   time.Time
	readiness *readiness
	refusals  *operator.Refusals
	past      *traffic
	history   *history.Recorder
}

// now returns the router's state.
func (s *statusReport) now() Status {
	st := Status{
		Version: s.version, UptimeSeconds: time.Since(s.started).Seconds(),
		Policy: s.Router.Policy().Name(), Draining: s.Requests.Draining(),
		Index: indexStatus(s.Index), Queue: queueStatus(s.Requests.Queue()),
		Tokens: s.Models.Status(), Conversions: s.Requests.Conversions(),
		Models: s.readiness.models(), Sources: s.Fleet.Sources(), Marks: s.Fleet.Marks(), Refused: s.refusals.Refused(),
	}
	totals := s.Requests.Metrics().Totals()
	st.TrafficStatus = TrafficStatus{
		Requests: totals.Requests, Errors: totals.Errors, ClientErrors: totals.ClientErrors, InFlight: s.Requests.InFlight(),
		Compared: totals.Exact.Compared,
		Accuracy: ratio(totals.Exact.Accurate, totals.Exact.Compared),
	}
	st.Approx = s.approx(totals.Approximate)
	known := s.Router.Known.Stats(time.Now())
	st.Workers = s.ranks(&st.TrafficStatus, &known)
	if s.Router.Known != nil {
		st.Sessions = sessionStatus(&known)
	}
	s.optional(&st)
	st.Concerns = concerns(&st, s.history.Errors())
	return st
}

// optional fills in the state of parts that not every router has.
func (s *statusReport) optional(st *Status) {
	if s.Lint != nil {
		st.Lint = s.Lint.Report()
	}
	if s.Peers != nil {
		others := s.Peers.Status()
		st.Replicas = &others
	}
	if s.Tiers != nil {
		tiers := s.Tiers()
		st.Tiers = &tiers
	}
	if s.Cluster != nil {
		st.Cluster = clusterStatus(s.Cluster)
	}
	if s.Config != nil {
		config := s.Config()
		st.Config = &config
	}
}

func indexStatus(x *radix.Index) IndexStatus {
	st := x.Stats()
	return IndexStatus{
		Blocks: int64(st.Entries), Nodes: int64(st.Runs), Bytes: int64(st.Bytes),
		MaxBytes: int64(st.MaxBytes), Evicted: st.EvictedBlocks,
	}
}

func (s *statusReport) approx(t request.Comparison) ApproxStatus {
	st := ApproxStatus{Accuracy: ratio(t.Accurate, t.Compared), Compared: t.Compared}
	if a := s.Router.Approx; a != nil {
		tree := a.Stats()
		st.Bytes, st.MaxBytes, st.Evictions = tree.Bytes, tree.MaxBytes, tree.EvictedMemory
	}
	return st
}

func ratio(a, b uint64) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}
