package tokens

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/dataplane/modelfile"
	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/prompt/promptcache"
)

// ModelsConfig of Models. Source and PromptCache are required.
type ModelsConfig struct {
	// Source gets the ids of workers, for comparison.
	Source *Source
	// PromptCache remembers the beginnings of prompts.
	PromptCache *promptcache.Cache
	// Folders are the operator's folders of models' files, by served name; "" is for models without
	// one. Where there is no such folder, it may be a model's name at Hugging Face's hub.
	Folders map[string]string
	// Hub finds such models; nil: none is found.
	Hub Hub
	// Files reads the files that workers name; nil reads only Folders.
	Files *modelfile.Reader
	// SampleEvery compares one in so many prompts of a verified model with a worker's ids. Default
	// 256.
	SampleEvery int
	// NeededInARow is the number of equal prompts of a kind in a row that verifies it. Default 3.
	NeededInARow uint64
	// Now is the clock. Default time.Now.
	Now func() time.Time
	Log *slog.Logger
}

// Models are the models that tokenize in this process.
type Models struct {
	cfg  ModelsConfig
	turn atomic.Uint64
	jobs chan sample

	ctx   context.Context //nolint:containedctx // of files that are being read
	stop  context.CancelFunc
	loads chan struct{} // places of loads

	wanted map[modelfile.HubName][]string // keys of own that wait for a model of the hub

	// sampled counts compared prompts, dropped those that came while too many waited.
	sampled, dropped atomic.Uint64

	mu     sync.Mutex
	own    map[string]ownFolder              // as ModelsConfig.Folders; guarded by mu
	served map[string]*servedModel           // by served name, see served.go; guarded by mu
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
	// waitingSamples bounds the memory of samples: many wait only while a worker hangs.
	waitingSamples = 16
	// maxLoads bounds the memory of files that are being read: each may take some 100 MB.
	maxLoads = 2
	// maxSampleIDs excludes prompts that would delay the worker that tokenizes them again.
	maxSampleIDs = 1 << 15
)

// NewModels returns an empty set: WorkerUp loads models.
func NewModels(cfg ModelsConfig) *Models {
	if cfg.SampleEvery <= 0 {
		cfg.SampleEvery = 256
	}
	if cfg.NeededInARow == 0 {
		cfg.NeededInARow = needAtFirst
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Files == nil {
		cfg.Files = modelfile.New(nil)
	}
	ms := &Models{cfg: cfg, jobs: make(chan sample, waitingSamples), loads: make(chan struct{}, maxLoads), served: map[string]*servedModel{}}
	ms.ctx, ms.stop = context.WithCancel(context.Background())
	ms.ready.Store(&map[string]*Model{})
	ms.own, ms.wanted = cfg.ownFolders()
	return ms
}

// Find returns the model of a served name, nil while the workers make its ids.
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

// CompareLength compares the number of prompt tokens in an answer with the ids made here.
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

// files reads the files of a model.
func (ms *Models) files(folder ownFolder) *modelFiles {
	return &modelFiles{ctx: ms.ctx, reader: ms.cfg.Files, own: folder, now: ms.cfg.Now, log: ms.cfg.Log}
}

// inBackground runs a load when it is its turn, unless Run has ended.
func (ms *Models) inBackground(load func()) {
	go func() {
		select {
		case ms.loads <- struct{}{}:
			defer func() { <-ms.loads }()
		case <-ms.ctx.Done():
		}
		if ms.ctx.Err() == nil {
			load()
		}
	}()
}

// Run compares samples and fetches models of the hub until ctx ends. It does not wait for files
// that are being read: a file system may hang, and a large file takes seconds.
func (ms *Models) Run(ctx context.Context) error {
	defer ms.stop()
	ms.fetch()
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
				continue // another sample will follow
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
	case k != kindText && (m.chat == nil || m.chatRest.rests(m.now)), m.textRest.rests(m.now):
		return byWorkers
	case m.verifications[k].verified.Load():
		return "router"
	}
	return byWorkers + ", unproved"
}

// reason says why something is left to the workers.
func (m *Model) reason() string {
	if m.chatErr != nil {
		return strings.TrimSuffix(m.chatErr.Error()+"; "+m.textRest.reason("tokenizer"), "; ")
	}
	return strings.Trim(m.textRest.reason("tokenizer")+"; "+m.chatRest.reason("chat template"), "; ")
}

// Status returns all served names, in order.
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
			st.Reason = m.reason()
		case ms.ownLocked(name).err != nil:
			st.Reason = ms.ownLocked(name).err.Error()
		case sl.reason() != nil:
			st.Reason = sl.reason().Error()
		default:
			st.Reason = "its files are being read"
		}
		all = append(all, st)
	}
	return all
}
