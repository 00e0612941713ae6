package store

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
)

const (
	// maxNamespaces bounds names with pages. Each change of weights brings new names, so names
	// that no engine uses any more make room.
	maxNamespaces = 1024
	// maxKinds bounds kinds, as announcements do.
	maxKinds = 256
	// usualKinds is the number of kinds from which unused ones make room: a router keeps 1,024
	// kinds of all nodes.
	usualKinds = 8
)

// ErrPageSize says that pages of one namespace would have two sizes, or a size that fits no slab.
var ErrPageSize = errors.New("store: page size")

// ErrNamespaces says that engines use too many namespaces.
var ErrNamespaces = errors.New("store: too many namespaces")

// noNamespace is no id of a namespace.
const noNamespace = ^uint32(0)

// namespace separates pages that engines must not mix: by model, weights, rank, memory layout and
// data type. Ids are never reused, so that a pull that keeps one for long cannot hit pages of
// another namespace.
type namespace struct {
	identity

	name      string
	engine    string // equal for all ranks and pools of an engine
	model     string // scope of a clear: a model, of any weights, ranks and pools
	bytes     int    // of a page
	class     int32
	pages     int    // readable
	held      int    // entries, pending ones included
	open      int    // connections of engines
	closed    uint64 // order in which the last connections ended
	kind      int    // index of its kind, or -1
	stamp     uint64 // of the model's last clear
	discarded bool   // the name is free or another namespace's, and the pages are being dropped
}

// identity is the JSON that the backend in integrations/sglang writes as a namespace's name.
type identity struct {
	Model   string `json:"model"`
	Weights string `json:"weights"` // of the weights' content
	Rank    string `json:"rank"`
	PP      string `json:"pp"`
	CP      string `json:"cp"`
	Pool    string `json:"pool"`
	Form    string `json:"form"`
	DType   string `json:"dtype"`
	Tokens  int    `json:"tokens"` // of a page
	Heads   int    `json:"heads"`
	Own     string `json:"own"`
	// Kinds and Versions are the classes of SGLang's pools, and the versions of the packages that
	// wrote the pages.
	Kinds    []string `json:"kinds,omitempty"`
	Versions []string `json:"versions,omitempty"`
}

// parse reads a name. A name of another backend has no fields.
func (n *identity) parse(name string) {
	if json.Unmarshal([]byte(name), n) != nil || n.Tokens <= 0 || n.Model == "" {
		*n = identity{}
	}
}

// namespaces knows all namespaces with names, and discarded ones until their pages are gone.
type namespaces struct {
	evictor   *evictor
	changes   *changeLog
	byName    map[string]uint32
	byID      map[uint32]*namespace
	next      uint32 // id of the next namespace
	discarded int    // discarded namespaces with entries
	closes    uint64 // ended connections
	// Stamps of clears by model; models that are absent were never cleared.
	cleared map[string]uint64
}

// serves reports whether pages of a namespace may be read.
func (x *namespaces) serves(ns uint32) bool {
	s := x.byID[ns]
	return s != nil && !s.discarded
}

// get returns the namespace of a name, which it adds where it is new.
func (x *namespaces) get(name string, bytes int) (uint32, error) {
	if ns, ok := x.byName[name]; ok {
		if have := x.byID[ns].bytes; have != bytes {
			return 0, fmt.Errorf("%w: pages of %q have %d bytes here, and the engine announced %d", ErrPageSize, name, have, bytes)
		}
		return ns, nil
	}
	if bytes <= 0 || int64(bytes) > x.evictor.slabBytes {
		return 0, fmt.Errorf("%w: %d bytes, and 1 to %d fit a slab of this tier (a larger --kv-tier has larger slabs)", ErrPageSize, bytes, x.evictor.slabBytes)
	}
	for len(x.byName) >= maxNamespaces || x.changes.liveKinds() >= usualKinds {
		if !x.discardOldest() {
			break // engines use all
		}
	}
	if len(x.byName) >= maxNamespaces || x.changes.liveKinds() >= maxKinds {
		return 0, fmt.Errorf("%w: engines use %d", ErrNamespaces, len(x.byName))
	}
	return x.add(name, bytes, 0), nil
}

// add makes the namespace of a free name.
func (x *namespaces) add(name string, bytes, open int) uint32 {
	ns := x.next
	x.next++
	s := &namespace{name: name, engine: name, model: name, bytes: bytes, class: x.evictor.classOf(bytes), kind: -1, open: open}
	s.parse(name)
	if s.Model != "" {
		s.engine, s.model = s.engineKey(), s.Own+"\x00"+s.Model
	}
	s.stamp = x.cleared[s.model]
	x.byID[ns], x.byName[name] = s, ns
	x.changes.join(ns)
	return ns
}

// discardOldest discards the namespaces of the engine that closed its last connection first. It
// reports whether there was one without connections.
func (x *namespaces) discardOldest() bool {
	open := map[string]bool{}
	for _, ns := range x.byName {
		if s := x.byID[ns]; s.open > 0 {
			open[s.engine] = true
		}
	}
	var victim *namespace
	for _, ns := range x.byName {
		if s := x.byID[ns]; !open[s.engine] && (victim == nil || s.closed < victim.closed) {
			victim = s
		}
	}
	if victim == nil {
		return false
	}
	x.discardEngine(victim.engine)
	return true
}

// discardEngine discards the namespaces of all ranks and pools of an engine. A kind without one
// of its namespaces would seem to hold pages that it lacks.
func (x *namespaces) discardEngine(engine string) {
	for _, ns := range x.byName {
		if x.byID[ns].engine == engine {
			x.discard(ns)
		}
	}
}

// discard takes the name from a namespace, so that its pages are not found any more; index.collect
// drops them.
func (x *namespaces) discard(ns uint32) {
	s := x.byID[ns]
	s.discarded = true
	delete(x.byName, s.name)
	x.changes.leave(ns)
	x.discarded++
	x.forget(ns)
}

// forget removes a discarded namespace without entries.
func (x *namespaces) forget(ns uint32) {
	if s := x.byID[ns]; s.discarded && s.held == 0 {
		delete(x.byID, ns)
		x.discarded--
	}
}

// open counts a connection of an engine.
func (x *namespaces) open(name string) {
	s := x.byID[x.byName[name]]
	s.open++
	if s.kind >= 0 {
		x.changes.updateOpen(s.kind)
	}
}

// close counts the end of a connection. retired says that the engine has loaded other weights: with
// its last connection the pages are useless, unless other engines of the node use the same weights.
func (x *namespaces) close(name string, retired bool) (discarded bool) {
	x.closes++
	s := x.byID[x.byName[name]]
	s.open--
	s.closed = x.closes
	if s.kind >= 0 {
		x.changes.updateOpen(s.kind)
	}
	if !retired {
		return false
	}
	for _, ns := range x.byName {
		if o := x.byID[ns]; o.engine == s.engine && o.open > 0 {
			return false
		}
	}
	x.discardEngine(s.engine)
	return true
}

// clear discards the namespaces of a model. Namespaces that engines use begin anew under their
// names.
func (x *namespaces) clear(model string, stamp uint64) (pages int) {
	x.cleared[model] = stamp
	for _, ns := range slices.Collect(maps.Values(x.byName)) {
		s := x.byID[ns]
		if s.model != model {
			continue
		}
		pages += s.pages
		x.discard(ns)
		if s.open > 0 {
			x.add(s.name, s.bytes, s.open)
		}
	}
	x.boundCleared()
	return pages
}

// boundCleared forgets the oldest clears of more models than there can be names.
func (x *namespaces) boundCleared() {
	for len(x.cleared) > maxNamespaces {
		oldest, victim := uint64(math.MaxUint64), ""
		for model, stamp := range x.cleared {
			if stamp <= oldest {
				oldest, victim = stamp, model
			}
		}
		delete(x.cleared, victim)
	}
}

// modelNamespace is a namespace of a model.
type modelNamespace struct {
	ns       uint32
	model    string
	pageSize int // tokens
	bytes    int // of a page
	open     bool
}

// ofModel lists the namespaces of a model by page size; "" is any model, 0 any page size. Where
// engines use the model now, it lists theirs alone: other namespaces may be of other weights.
func (x *namespaces) ofModel(model string, pageSize int) []modelNamespace {
	var found []modelNamespace
	open := map[string]bool{}
	for _, ns := range x.byName {
		s := x.byID[ns]
		if s.Model != "" && (model == "" || s.Model == model) && (pageSize == 0 || s.Tokens == pageSize) {
			found = append(found, modelNamespace{ns: ns, model: s.Model, pageSize: s.Tokens, bytes: s.bytes, open: s.open > 0})
			open[s.Model] = open[s.Model] || s.open > 0
		}
	}
	found = slices.DeleteFunc(found, func(s modelNamespace) bool { return open[s.model] && !s.open })
	slices.SortFunc(found, func(a, b modelNamespace) int {
		return cmp.Or(cmp.Compare(a.pageSize, b.pageSize), cmp.Compare(a.ns, b.ns))
	})
	return found
}

// bytesPerToken returns the KV bytes of a token over all ranks of an engine on this node; 0 where
// the engine's pages have an unknown form.
func (x *namespaces) bytesPerToken(ns uint32) float64 {
	own := x.byID[ns]
	if own == nil || own.Tokens == 0 {
		return 0
	}
	sum := 0
	for _, n := range x.byName {
		if s := x.byID[n]; s.engine == own.engine {
			sum += s.bytes
		}
	}
	return float64(sum) / float64(own.Tokens)
}
