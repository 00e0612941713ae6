package server

import (
	"sync/atomic"

	"github.com/warmpath/warmpath/dataplane/worker"
)

// check refuses what is known to end an engine before any worker is asked. An adapter may have tokens of its
// own behind the model's: how many is not told.
func (e *exchange) check() error {
	vocab := 0
	if e.lora() == "" {
		vocab = e.s.vocabularies.of(e.s.Registry.Snapshot(), e.req.Model)
	}
	return e.req.Check(vocab)
}

// vocabularies are the sizes of the models' vocabularies, read anew when a worker has described itself.
type vocabularies struct {
	current atomic.Pointer[vocabularyTable]
}

type vocabularyTable struct {
	workers *worker.Snapshot // that it was made of
	models  map[string]int
	only    int // of the model, where there is one
}

// of returns how many ids a model has, 0 where that is not known.
func (v *vocabularies) of(workers *worker.Snapshot, model string) int {
	t := v.current.Load()
	if t == nil || t.workers != workers {
		t = newVocabularyTable(workers)
		v.current.Store(t)
	}
	if n, ok := t.models[model]; ok {
		return n
	}
	return t.only
}

// newVocabularyTable reads what workers say. Of workers of one model that differ the smallest counts: what is
// above ends an engine.
func newVocabularyTable(workers *worker.Snapshot) *vocabularyTable {
	t := &vocabularyTable{workers: workers, models: make(map[string]int)}
	told, largest := 0, 0
	for _, w := range workers.Workers {
		info := w.Info()
		if info == nil || info.Vocabulary == 0 {
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
	if t.only != largest {
		t.only = 0 // several models: a name that none of them has says nothing
	}
	return t
}
