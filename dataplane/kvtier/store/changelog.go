package store

import (
	"encoding/json"
	"hash/fnv"
	"slices"
	"strings"

	"github.com/warmpath/warmpath/dataplane/kvtier/proto"
)

// keptChanges bounds the changes that are remembered: 1 MiB, and several seconds of a tier that
// stores at full speed.
const keptChanges = 1 << 16

// changeLog remembers the last changes of the pages, for announcements. It groups namespaces by
// kinds: a page counts once all namespaces of a kind hold it.
type changeLog struct {
	table  *pageTable
	spaces *namespaces

	on    bool // there is a reader
	kinds []kind
	// Namespaces of pools besides the main one, which belong to all kinds of their engines.
	others []uint32
	ring   []proto.Change
	now    proto.Position
}

// kind is a proto.Kind and its namespaces. A kind without namespaces is free for another one.
type kind struct {
	proto.Kind
	engine  string // engineKey of its namespaces
	members []uint32
}

// mainPool is the pool that each engine has. Engines read their other pools together with it.
const mainPool = "kv"

// engineKey names the properties that all namespaces of an engine share.
func (n *identity) engineKey() string {
	text, err := json.Marshal([]any{n.Model, n.Weights, n.Tokens, n.Own, groupSize(n.Rank), groupSize(n.PP), groupSize(n.CP), n.Versions})
	if err != nil {
		return "" // never: strings and numbers
	}
	return string(text)
}

// groupSize returns the number of ranks in a rank's name: 2 of "0/2".
func groupSize(rank string) string {
	_, of, found := strings.Cut(rank, "/")
	if !found {
		return rank
	}
	return of
}

// join adds a new namespace to its kind. A kind that has pages already holds fewer whole pages
// then, so a new epoch begins.
func (l *changeLog) join(ns uint32) {
	n := l.spaces.byID[ns]
	if n.Model == "" {
		return
	}
	if n.Pool != mainPool {
		l.others = append(l.others, ns)
		for i := range l.kinds {
			if l.kinds[i].engine == n.engine && len(l.kinds[i].members) > 0 {
				l.addMember(&l.kinds[i], ns)
			}
		}
		return
	}
	text, err := json.Marshal([]any{n.engine, n.Form, n.DType, n.Heads, n.Kinds})
	if err != nil {
		return
	}
	h := fnv.New64a()
	_, _ = h.Write(text) // never fails
	at := l.kindIndex(h.Sum64(), n)
	n.kind = at
	l.addMember(&l.kinds[at], ns)
	l.updateOpen(at)
}

// kindIndex returns the index of a kind, which it adds where it is new.
func (l *changeLog) kindIndex(id uint64, n *namespace) int {
	at := -1
	for i := range l.kinds {
		switch {
		case len(l.kinds[i].members) == 0:
			if at < 0 {
				at = i
			}
		case l.kinds[i].ID == id:
			return i
		}
	}
	if at < 0 {
		at = len(l.kinds)
		l.kinds = append(l.kinds, kind{})
	} else {
		l.newEpoch() // remembered changes refer to the former kind
	}
	l.kinds[at] = kind{Kind: proto.Kind{ID: id, Model: n.Model, PageSize: n.Tokens}, engine: n.engine}
	for _, other := range l.others {
		if l.spaces.byID[other].engine == n.engine {
			l.addMember(&l.kinds[at], other)
		}
	}
	return at
}

// leave removes a namespace from its kinds. A new epoch begins.
func (l *changeLog) leave(ns uint32) {
	l.newEpoch()
	without := func(list []uint32) []uint32 { return slices.DeleteFunc(list, func(m uint32) bool { return m == ns }) }
	l.others = without(l.others)
	for i := range l.kinds {
		k := &l.kinds[i]
		if k.members = without(k.members); l.first(k) == noNamespace {
			k.members, k.Open = nil, false
		}
	}
	if at := l.spaces.byID[ns].kind; at >= 0 {
		l.spaces.byID[ns].kind = -1
		l.updateOpen(at)
	}
}

// updateOpen notes whether an engine of this node reads a kind.
func (l *changeLog) updateOpen(at int) {
	k := &l.kinds[at]
	k.Open = false
	for _, m := range k.members {
		if s := l.spaces.byID[m]; s.kind == at && s.open > 0 {
			k.Open = true
		}
	}
}

// liveKinds counts kinds with namespaces.
func (l *changeLog) liveKinds() (n int) {
	for i := range l.kinds {
		if len(l.kinds[i].members) > 0 {
			n++
		}
	}
	return n
}

func (l *changeLog) addMember(k *kind, ns uint32) {
	for _, m := range k.members {
		if l.spaces.byID[m].pages > 0 {
			l.newEpoch()
			break
		}
	}
	k.members = append(k.members, ns)
}

// newEpoch makes readers begin anew.
func (l *changeLog) newEpoch() { l.now.Epoch++ }

// record notes a page that has become readable or is about to be dropped, where all other
// namespaces of its kind hold it.
func (l *changeLog) record(k key, removed bool) {
	if !l.on {
		return
	}
	for i := range l.kinds {
		if slices.Contains(l.kinds[i].members, k.ns) && l.whole(&l.kinds[i], k) {
			l.ring[l.now.Number%keptChanges] = proto.Change{Page: k.hash.Name(), Kind: uint32(i), Removed: removed}
			l.now.Number++
		}
	}
}

// whole reports whether all namespaces of a kind hold a page, that of k aside.
func (l *changeLog) whole(kd *kind, k key) bool {
	for _, m := range kd.members {
		if m != k.ns && l.table.find(key{m, k.hash}) == none {
			return false
		}
	}
	return true
}

// first returns the first namespace of a kind's main pool.
func (l *changeLog) first(k *kind) uint32 {
	for _, m := range k.members {
		if l.spaces.byID[m].Pool == mainPool {
			return m
		}
	}
	return noNamespace
}

// start remembers changes from now on, and returns the present position. It may be called again.
func (l *changeLog) start() proto.Position {
	if !l.on {
		l.on, l.ring = true, make([]proto.Change, keptChanges)
		l.now.Number = 0
	}
	return l.now
}

// read appends changes from a position on, up to the capacity of dst. ok is false where they are
// not remembered.
func (l *changeLog) read(dst []proto.Change, from proto.Position) (list []proto.Change, next, now proto.Position, ok bool) {
	if from.Epoch != l.now.Epoch || from.Number > l.now.Number || l.now.Number-from.Number > keptChanges || !l.on {
		return dst, l.now, l.now, false
	}
	for ; from.Number < l.now.Number && len(dst) < cap(dst); from.Number++ {
		dst = append(dst, l.ring[from.Number%keptChanges])
	}
	return dst, from, l.now, true
}

// contentsStep bounds the entries scanned under the lock at once: some 0.2 ms.
const contentsStep = 2048

// contents appends whole pages from an entry on, up to the capacity of dst, and returns the next
// entry to scan or -1.
func (l *changeLog) contents(dst []proto.Change, from int) (list []proto.Change, next int) {
	for range contentsStep {
		if from >= len(l.table.entries) {
			return dst, -1
		}
		if len(dst) == cap(dst) {
			break
		}
		// Reported with the first namespace of the kind: all of them hold the page, or it does
		// not count.
		if e := &l.table.entries[from]; e.state == ready {
			if i := l.spaces.byID[e.key.ns].kind; i >= 0 {
				if k := &l.kinds[i]; l.first(k) == e.key.ns && l.whole(k, e.key) {
					dst = append(dst, proto.Change{Page: e.key.hash.Name(), Kind: uint32(i)})
				}
			}
		}
		from++
	}
	return dst, from
}
