package tokens

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/prompt/promptcache"
)

// ModelsConfig of Models. Source and Sessions are required.
type ModelsConfig struct {
	// Source asks workers, which the ids made here are compared with.
	Source *Source
	// PromptCache is where the beginnings of prompts are remembered.
	PromptCache *promptcache.Cache
	// Folders are the operator's folders of models' files, by served name; "" is for models without
	// one.
	Folders map[string]string
	// SampleEvery is one in how many prompts of a proved model is compared whole. Default 256.
	SampleEvery int
	// NeededInARow is how many prompts of a kind must be equal in a row before it is proved.
	// Default 3.
	NeededInARow uint64
	Log          *slog.Logger
}

// Models are the models that tokenize in this process.
type Models struct {
	cfg   ModelsConfig
	turn  atomic.Uint64
	jobs  chan sample
	loads sync.WaitGroup

	// sampled prompts were compared whole, dropped ones came while too many were.
	sampled, dropped atomic.Uint64

	mu     sync.Mutex
	served map[string]*servedModel           // by served name, see offers.go; guarded by mu
	ready  atomic.Pointer[map[string]*Model] // loaded models; never changed in place
}

// sample is a prompt to compare with a worker's ids.
type sample struct {
	model  *Model
	kind   kind
	target string
	body   []byte
	ids    []uint32
}

const (
	// waitingSamples bounds the memory of samples: more than a few wait only while a worker hangs.
	waitingSamples = 16
	// maxSampleIDs leaves out prompts that are long enough to be felt by the worker that tokenizes
	// them again.
	maxSampleIDs = 1 << 15
)

// NewModels returns none yet: they are loaded when workers are offered.
func NewModels(cfg ModelsConfig) *Models {
	if cfg.SampleEvery <= 0 {
		cfg.SampleEvery = 256
	}
	if cfg.NeededInARow == 0 {
		cfg.NeededInARow = needAtFirst
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	ms := &Models{cfg: cfg, jobs: make(chan sample, waitingSamples), served: map[string]*servedModel{}}
	ms.ready.Store(&map[string]*Model{})
	return ms
}

// Find returns the model that is served by this name, nil while its ids are the workers' to make.
func (ms *Models) Find(name string) *Model {
	if ms == nil {
		return nil
	}
	return (*ms.ready.Load())[name]
}

// Compare notes a worker's ids of a prompt beside the ids made here.
func (ms *Models) Compare(m *Model, req *openai.Request, own, theirs []uint32) {
	ms.compare(m, kindOf(req), own, theirs)
}

func (ms *Models) compare(m *Model, k kind, own, theirs []uint32) {
	same := slices.Equal(own, theirs)
	ms.logChange(m, k, m.verifications[k].compare(same), len(own), len(theirs), firstDifference(own, theirs))
}

// CompareLength notes how many prompt tokens an answer reports of a prompt of which own ids were
// sent or used.
func (ms *Models) CompareLength(m *Model, req *openai.Request, own, theirs int) {
	k := kindOf(req)
	if p := &m.verifications[k]; p.verified.Load() {
		ms.logChange(m, k, p.compare(own == theirs), own, theirs, -1)
	}
}

func (ms *Models) logChange(m *Model, k kind, o change, own, theirs, at int) {
	switch o {
	case nowVerified:
		ms.cfg.Log.Info("token ids are made by the router from now on", "folder", m.folder, "prompts", k)
	case nowDifferent:
		ms.cfg.Log.Warn("token ids differ from the worker's; the workers tokenize until they are equal again", "folder", m.folder, "prompts", k,
			"tokens", own, "worker_tokens", theirs, "first_difference", at)
	case unchanged:
	}
}

func firstDifference(a, b []uint32) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// Sample compares one in so many prompts with the ids of target, in the background.
func (ms *Models) Sample(m *Model, target string, req *openai.Request, own []uint32) {
	if ms.turn.Add(1)%uint64(ms.cfg.SampleEvery) != 0 || len(own) > maxSampleIDs {
		return
	}
	around, at, prompt := appendAround(nil, req)
	select {
	case ms.jobs <- sample{m, kindOf(req), target, slices.Concat(around[:at], prompt, around[at:]), slices.Clone(own)}:
	default:
		ms.dropped.Add(1)
	}
}

// Run compares samples until ctx ends, and then waits for files that are being read.
func (ms *Models) Run(ctx context.Context) error {
	defer ms.loads.Wait()
	for {
		select {
		case <-ctx.Done():
			return nil
		case j := <-ms.jobs:
			q := ms.cfg.Source.client.question()
			q.parts[0] = j.body
			theirs, err := ms.cfg.Source.client.fetchIDs(ctx, j.target, q)
			ms.cfg.Source.client.release(q)
			if err != nil {
				continue // the next one will tell
			}
			ms.sampled.Add(1)
			ms.compare(j.model, j.kind, j.ids, theirs.ids)
		}
	}
}

// ModelStatus is the source of the token ids of a served name.
type ModelStatus struct {
	Model  string `json:"model"`
	Folder string `json:"folder,omitempty"`
	// Text, Chat and Tools are the source of the ids of such prompts: "router"; "workers, unproved"
	// while their ids are compared; "workers".
	Text   string `json:"text"`
	Chat   string `json:"chat"`
	Tools  string `json:"tools"`
	Reason string `json:"reason,omitempty"` // why something is left to the workers
	// Matches and Mismatches count comparisons with a worker: of all ids, or of their number.
	Matches    uint64 `json:"matches"`
	Mismatches uint64 `json:"mismatches"`
}

const byWorkers = "workers"

func (m *Model) source(k kind) string {
	switch {
	case k != kindText && m.chat == nil:
		return byWorkers
	case m.verifications[k].verified.Load():
		return "router"
	}
	return byWorkers + ", unproved"
}

// Status returns all names that were offered, in order.
func (ms *Models) Status() []ModelStatus {
	if ms == nil {
		return nil
	}
	ms.mu.Lock()
	defer ms.mu.Unlock()
	all := []ModelStatus{}
	for _, name := range slices.Sorted(maps.Keys(ms.served)) {
		sl := ms.served[name]
		st := ModelStatus{Model: name, Text: byWorkers, Chat: byWorkers, Tools: byWorkers}
		switch m := sl.current(); {
		case m != nil:
			st.Folder, st.Text, st.Chat, st.Tools = m.folder, m.source(kindText), m.source(kindChat), m.source(kindTools)
			for k := range m.verifications {
				st.Matches += m.verifications[k].matches.Load()
				st.Mismatches += m.verifications[k].mismatches.Load()
			}
			if m.chatErr != nil {
				st.Reason = m.chatErr.Error()
			}
		case sl.reason() != nil:
			st.Reason = sl.reason().Error()
		default:
			st.Reason = "its files are being read"
		}
		all = append(all, st)
	}
	return all
}
