package store

import (
	"encoding/json"
	"hash/fnv"
	"slices"
	"strings"

	"github.com/warmpath/warmpath/dataplane/kvtier/proto"
)

// keptChanges are remembered for who follows: 1 MiB, and several seconds of a tier that stores all that it can.
const keptChanges = 1 << 16

// feed is what the index tells of its contents. Tier.mu guards it.
type feed struct {
	on     bool // somebody follows
	kinds  []kind
	others []uint32 // namespaces of pools besides the first one, which belong to all kinds of their engines
	ring   []proto.Change
	now    proto.Position
}

// kind is a Kind and its namespaces. One without any is free for another kind.
type kind struct {
	proto.Kind
	base    string
	members []uint32
}

// mainPool is the pool that each engine has. What a model has besides is read together with it.
const mainPool = "kv"

// base is what all namespaces of an engine have in common.
func (n *spaceName) base() string {
	text, err := json.Marshal([]any{n.Model, n.Weights, n.Tokens, n.Own, size(n.Rank), size(n.PP), size(n.CP), n.Versions})
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
	f, n := &x.feed, x.spaces[ns]
	if n.Model == "" {
		return
	}
	base := n.base()
	if n.Pool != mainPool {
		f.others = append(f.others, ns)
		for i := range f.kinds {
			if f.kinds[i].base == base && len(f.kinds[i].members) > 0 {
				x.addMember(&f.kinds[i], ns)
			}
		}
		return
	}
	text, err := json.Marshal([]any{base, n.Form, n.DType, n.Heads, n.Kinds})
	if err != nil {
		return
	}
	h := fnv.New64a()
	_, _ = h.Write(text) // never fails
	at := x.kindOf(h.Sum64(), n)
	n.kind = at
	x.addMember(&f.kinds[at], ns)
	x.openKind(at)
}

// kindOf returns the place of a kind, which it makes where it is new.
func (x *index) kindOf(id uint64, n *namespace) int {
	f := &x.feed
	at := -1
	for i := range f.kinds {
		switch {
		case len(f.kinds[i].members) == 0:
			if at < 0 {
				at = i
			}
		case f.kinds[i].ID == id:
			return i
		}
	}
	if at < 0 {
		at = len(f.kinds)
		f.kinds = append(f.kinds, kind{})
	} else {
		x.resetFeed() // changes that are remembered meant the kind that was there
	}
	f.kinds[at] = kind{Kind: proto.Kind{ID: id, Model: n.Model, PageSize: n.Tokens}, base: n.base()}
	for _, other := range f.others {
		if x.spaces[other].base() == n.base() {
			x.addMember(&f.kinds[at], other)
		}
	}
	return at
}

// leaveFeed takes a namespace from its kinds. What they hold is to be learnt again.
func (x *index) leaveFeed(ns uint32) {
	f := &x.feed
	x.resetFeed()
	drop := func(list []uint32) []uint32 { return slices.DeleteFunc(list, func(m uint32) bool { return m == ns }) }
	f.others = drop(f.others)
	for i := range f.kinds {
		k := &f.kinds[i]
		if k.members = drop(k.members); x.first(k) == none32 {
			k.members, k.Open = nil, false
		}
	}
	if at := x.spaces[ns].kind; at >= 0 {
		x.spaces[ns].kind = -1
		x.openKind(at)
	}
}

// openKind notes whether an engine here reads a kind.
func (x *index) openKind(at int) {
	k := &x.feed.kinds[at]
	k.Open = false
	for _, m := range k.members {
		if s := x.spaces[m]; s.kind == at && s.open > 0 {
			k.Open = true
		}
	}
}

// liveKinds is how many kinds have namespaces.
func (x *index) liveKinds() (n int) {
	for i := range x.feed.kinds {
		if len(x.feed.kinds[i].members) > 0 {
			n++
		}
	}
	return n
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
		if f.kinds[i].has(k.ns) {
			if x.whole(&f.kinds[i], k) {
				f.ring[f.now.Number%keptChanges] = proto.Change{Page: k.hash.Name(), Kind: uint32(i), Removed: gone}
				f.now.Number++
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
