package request

import (
	"sync/atomic"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/prompt/openai"
)

// vocabularies are the vocabulary sizes of all models. They are read again when a worker has
// described itself.
type vocabularies struct {
	table atomic.Pointer[vocabularyTable]
}

// check refuses a request that is known to end an engine before any worker is asked. An adapter may
// add tokens to the model's; their number is not reported.
func (v *vocabularies) check(workers *worker.Snapshot, req *openai.Request) error {
	l := v.limits(workers, req.Model)
	if adapterOf(req) != "" {
		l.Vocabulary = 0
	}
	return req.Check(l)
}

type vocabularyTable struct {
	workers *worker.Snapshot // that the table was made of
	sizes   map[string]int   // by model
	only    int              // the size of the fleet's one model; 0 where there are several
	labels  bool             // some worker counts the clients' labels
	trust   bool             // some worker renders the clients' chat templates
}

// limits returns the limits of a model.
func (v *vocabularies) limits(workers *worker.Snapshot, model string) openai.Limits {
	t := v.table.Load()
	if t == nil || t.workers != workers {
		t = newVocabularyTable(workers)
		v.table.Store(t)
	}
	l := openai.Limits{Vocabulary: t.only, Labels: t.labels, Templates: t.trust}
	if n, ok := t.sizes[model]; ok {
		l.Vocabulary = n
	}
	return l
}

// newVocabularyTable reads the workers' descriptions. Where workers of one model differ the
// smallest size counts: an id above it ends an engine.
func newVocabularyTable(workers *worker.Snapshot) *vocabularyTable {
	t := &vocabularyTable{workers: workers, sizes: make(map[string]int)}
	reported, largest := 0, 0
	for _, w := range workers.Workers {
		info := w.Info()
		if info == nil {
			continue
		}
		t.labels = t.labels || info.Labels
		t.trust = t.trust || info.Tokenizer.TrustRequests
		// A model without a reported size has no limit, and not another model's.
		if info.Vocabulary == 0 {
			for _, name := range info.Models {
				t.sizes[name] += 0
			}
			continue
		}
		for _, name := range info.Models {
			if n := t.sizes[name]; n == 0 || info.Vocabulary < n {
				t.sizes[name] = info.Vocabulary
			}
		}
		if reported++; reported == 1 || info.Vocabulary < t.only {
			t.only = info.Vocabulary
		}
		largest = max(largest, info.Vocabulary)
	}
	for _, n := range t.sizes {
		if n == 0 || t.only != largest {
			t.only = 0 // several models: an unknown name may be any of them
			break
		}
	}
	return t
}
