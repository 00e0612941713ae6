package tier

import (
	"encoding/binary"
	"encoding/json"
	"hash/fnv"
	"slices"
	"strings"
)

// Kind is pages of one form: what engines of one model, parallelism, layout and type of bytes can read. An engine's page is one page of each of
// its ranks and pools, each in a namespace of its own; of a kind are those that all namespaces hold which engines here have opened.
type Kind struct {
	ID     uint64 // follows from the form: the same on all nodes
	Model  string // as engines name it
	Tokens int    // of a page
	Open   bool   // an engine here reads it now
}

// Change is a page that became readable, or that is not any more.
type Change struct {
	Page uint64 // the first 8 bytes of its hash, big-endian, as in SGLang's events
	Kind uint32 // place in the list of kinds, which only grows
	Gone bool
}

// Position is a point in the order of all changes.
type Position struct {
	Epoch uint64 // another one: what was held is to be learnt again
	At    uint64 // changes so far
}

// keptChanges are remembered for who follows: 1 MiB, and several seconds of a tier that stores all that it can.
const keptChanges = 1 << 16

// feed is what the index tells of its contents. Tier.mu guards it.
type feed struct {
	on     bool // somebody follows
	kinds  []kind
	of     []uint32 // by namespace: 1 + its kind; 0: it is of none
	others []uint32 // namespaces of pools besides the first one, which belong to all kinds of their engines
	ring   []Change
	now    Position
}

// kind is a Kind and its namespaces.
type kind struct {
	Kind
	base    string
	members []uint32
	opened  int // connections of engines
}

// spaceName is what the backend in integrations/sglang writes as a namespace's name.
type spaceName struct {
	Model  string `json:"model"`
	Rank   string `json:"rank"`
	PP     string `json:"pp"`
	CP     string `json:"cp"`
	Pool   string `json:"pool"`
	Form   string `json:"form"`
	DType  string `json:"dtype"`
	Tokens int    `json:"tokens"`
	Heads  int    `json:"heads"`
	Own    string `json:"own"`
}

// mainPool is the pool that each engine has. What a model has besides is read together with it.
const mainPool = "kv"

// base is what all namespaces of an engine have in common.
func (n *spaceName) base() string {
	text, err := json.Marshal([]any{n.Model, n.Tokens, n.Own, size(n.Rank), size(n.PP), size(n.CP)})
	if err != nil {
		return "" // strings and numbers can always be written
	}
	return string(text)
}

// size is how many there are of a rank's name: 2 of "0/2".
func size(rank string) string {
	_, of, found := strings.Cut(rank, "/")
	if !found {
		return rank
	}
	return of
}

// joinFeed finds the kind of a new namespace. A kind that has pages already has fewer by that: all is to be learnt again.
func (x *index) joinFeed(ns uint32) {
	f := &x.feed
	f.of = append(f.of, 0)
	var n spaceName
	if json.Unmarshal([]byte(x.spaces[ns].name), &n) != nil || n.Tokens <= 0 || n.Model == "" {
		return
	}
	base := n.base()
	if n.Pool != mainPool {
		f.others = append(f.others, ns)
		for i := range f.kinds {
			if f.kinds[i].base == base {
				x.addMember(&f.kinds[i], ns)
			}
		}
		return
	}
	text, err := json.Marshal([]any{base, n.Form, n.DType, n.Heads})
	if err != nil {
		return
	}
	h := fnv.New64a()
	_, _ = h.Write(text) // never fails
	id := h.Sum64()
	at := -1
	for i := range f.kinds {
		if f.kinds[i].ID == id {
			at = i
		}
	}
	if at < 0 {
		at = len(f.kinds)
		f.kinds = append(f.kinds, kind{Kind: Kind{ID: id, Model: n.Model, Tokens: n.Tokens}, base: base})
		for _, other := range f.others {
			var o spaceName
			if json.Unmarshal([]byte(x.spaces[other].name), &o) == nil && o.base() == base {
				x.addMember(&f.kinds[at], other)
			}
		}
	}
	f.of[ns] = uint32(at) + 1
	x.addMember(&f.kinds[at], ns)
}

func (x *index) addMember(k *kind, ns uint32) {
	for _, m := range k.members {
		if x.spaces[m].pages > 0 {
			x.resetFeed()
			break
		}
	}
	k.members = append(k.members, ns)
}

// resetFeed makes followers begin anew.
func (x *index) resetFeed() { x.feed.now.Epoch++ }

// tell notes a page that has just become readable, or is about to go, where all other namespaces of its kind hold it.
func (x *index) tell(k key, gone bool) {
	f := &x.feed
	if !f.on {
		return
	}
	for i := range f.kinds {
		if f.of[k.ns] == uint32(i)+1 || (f.of[k.ns] == 0 && f.kinds[i].has(k.ns)) {
			if x.whole(&f.kinds[i], k) {
				f.ring[f.now.At%keptChanges] = Change{Page: pageName(k.hash), Kind: uint32(i), Gone: gone}
				f.now.At++
			}
		}
	}
}

func (k *kind) has(ns uint32) bool {
	return slices.Contains(k.members, ns)
}

// whole reports whether all namespaces of a kind but that of the page itself hold a page.
func (x *index) whole(k *kind, of key) bool {
	for _, m := range k.members {
		if m != of.ns && x.find(key{m, of.hash}) == none {
			return false
		}
	}
	return true
}

func pageName(h Hash) uint64 { return binary.BigEndian.Uint64(h[:8]) }
