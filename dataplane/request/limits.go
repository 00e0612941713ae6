package request

import (
	"sync/atomic"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/prompt/openai"
)

// check refuses what is known to end an engine before any worker is asked. An adapter may have tokens of its
// own behind the model's: how many is not told.
func (e *exchange) check() error {
	l := e.s.limits.of(e.s.Registry.Snapshot(), e.req.Model)
	if e.lora() != "" {
		l.Vocabulary = 0
	}
	return e.req.Check(l)
}

// modelLimits are the limits of the models, read anew when a worker has described itself.
type modelLimits struct {
	current atomic.Pointer[limitTable]
}

type limitTable struct {
	workers *worker.Snapshot // that it was made of
	models  map[string]int
	only    int  // of the model, where there is one
	labels  bool // some worker counts labels of clients
}

// of returns the limits of a model.
func (v *modelLimits) of(workers *worker.Snapshot, model string) openai.Limits {
	t := v.current.Load()
	if t == nil || t.workers != workers {
		t = newLimitTable(workers)
		v.current.Store(t)
	}
	l := openai.Limits{Vocabulary: t.only, Labels: t.labels}
	if n, ok := t.models[model]; ok {
		l.Vocabulary = n
	}
	return l
}

// newLimitTable reads what workers say. Of workers of one model that differ the smallest counts: what is
// above ends an engine.
func newLimitTable(workers *worker.Snapshot) *limitTable {
	t := &limitTable{workers: workers, models: make(map[string]int)}
	told, largest := 0, 0
	for _, w := range workers.Workers {
		info := w.Info()
		if info != nil {
			t.labels = t.labels || info.Labels
		}
		if info == nil {
			continue
		}
		if info.Vocabulary == 0 { // a model that no worker tells it of has no limit, and not another one's
			for _, name := range info.Models {
				t.models[name] += 0
			}
			continue
		}
		for _, name := range info.Models {
			if n := t.models[name]; n == 0 || info.Vocabulary < n {
				t.models[name] = info.Vocabulary
			}
		}
		if told++; told == 1 || info.Vocabulary < t.only {
			t.only = info.Vocabulary
		}
		largest = max(largest, info.Vocabulary)
	}
	for _, n := range t.models {
		if n == 0 || t.only != largest {
			t.only = 0 // several models: a name that none of them has says nothing
			break
		}
	}
	return t
}
