package worker

import (
	"fmt"
	"slices"
	"unicode/utf8"
	"unique"

	"github.com/valyala/fastjson"
)

// modelNames is the content of GET /v1/models.
type modelNames struct {
	bases    []string // names of the model itself
	adapters []string // LoRA adapters that are loaded
	maxLen   int      // max_model_len; 0 when unknown
}

// names returns the names of the description.
func (i *Info) names() modelNames {
	n := len(i.Models) - i.Adapters
	return modelNames{bases: i.Models[:n:n], adapters: i.Models[n:], maxLen: i.MaxLen}
}

func (s *modelNames) empty() bool { return len(s.bases) == 0 && len(s.adapters) == 0 }

// Bounds of an answer of /v1/models, which may have 16 MiB. Each choice compares the names of a
// worker with the request's.
const (
	maxListed   = 1024 // names of models
	maxAdapters = 8192 // S-LoRA's machines hold 2,000
	maxNameSize = 1024 // bytes
)

// parseModels reads the body of GET /v1/models. An adapter is a model with a parent. Names beyond
// the bounds are left out, and those that are no UTF-8: no label of a metric may have them.
func parseModels(body []byte) (modelNames, error) {
	var s modelNames
	v, err := fastjson.ParseBytes(body)
	if err != nil {
		return s, fmt.Errorf("cannot read /v1/models: %w", err)
	}
	for _, m := range v.GetArray("data") {
		s.maxLen = max(s.maxLen, m.GetInt("max_model_len"))
		id := string(m.GetStringBytes("id"))
		list, most := &s.bases, maxListed
		if len(m.GetStringBytes("parent")) > 0 {
			list, most = &s.adapters, maxAdapters
		}
		if id == "" || len(id) > maxNameSize || !utf8.ValidString(id) || len(*list) >= most {
			continue
		}
		// One string for all workers: a choice compares it once for each.
		*list = append(*list, unique.Make(id).Value())
	}
	return s, nil
}

// maxNames bounds the names that are kept of a process, which may load other weights every
// minute.
const maxNames = 64

// addNames takes in the answer of /v1/models. A process keeps its earlier names: after
// update_weights_from_disk SGLang shows the path, and still takes requests for the name that it
// was started with. The first name stays the first, because the index and other routers know the
// model by it.
func (i *Info) addNames(s modelNames) {
	if s.empty() {
		return
	}
	i.MaxLen = s.maxLen
	bases := i.names().bases
	if i.Process == 0 { // and a server of another kind may drop models while it runs
		bases = nil
	}
	for _, name := range s.bases {
		if !slices.Contains(bases, name) {
			bases = append(bases, name)
		}
	}
	if over := len(bases) - maxNames; over > 0 {
		bases = slices.Delete(slices.Clone(bases), 1, 1+over)
	}
	i.Models, i.Adapters = slices.Concat(bases, s.adapters), len(s.adapters)
}

// knows reports whether the model's names are all known.
func (i *Info) knows(s modelNames) bool {
	known := i.names().bases
	return !slices.ContainsFunc(s.bases, func(name string) bool { return !slices.Contains(known, name) })
}

// keepNames takes over the names of an earlier description of the same process.
func (i *Info) keepNames(old *Info) {
	said := i.names()
	i.Models, i.Adapters = old.Models, old.Adapters
	i.addNames(said)
}
