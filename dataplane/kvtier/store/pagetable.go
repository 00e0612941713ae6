package store

import "github.com/warmpath/warmpath/dataplane/kvtier/proto"

// key is a page of one namespace.
type key struct {
	ns   uint32
	hash proto.Hash
}

// none is no entry.
const none = int32(-1)

// state of an entry: free, written by exactly one writer, or readable.
type state uint8

const (
	free state = iota
	pending
	ready
)

// entry is one page. Entries refer to each other by index, so that the garbage collector sees one
// slice without pointers however many pages there are.
type entry struct {
	key         key
	offset      int64  // in the arena
	used        uint64 // evictor.clock at its last use
	parent      int32  // the page before it; valid while parentBirth is the birth of that entry
	children    int32  // pages whose parent it is
	prev, next  int32  // in its queue; next also links free entries
	pins        int32  // readers; a pinned page is not evicted
	birth       uint32 // changes with each new page in this entry
	parentBirth uint32
	class       int32
	state       state
	queue       uint8 // probation or protected, while ready
}

// pageTable maps pages to entries.
type pageTable struct {
	entries  []entry
	freeHead int32 // list of free entries
	byKey    map[key]int32
}

// find returns the entry of a readable page, or none.
func (t *pageTable) find(k key) int32 {
	if e, ok := t.byKey[k]; ok && t.entries[e].state == ready {
		return e
	}
	return none
}

// parentOf returns the readable page before e, or none.
func (t *pageTable) parentOf(e int32) int32 {
	p := t.entries[e].parent
	if p == none || t.entries[p].birth != t.entries[e].parentBirth || t.entries[p].state != ready {
		return none
	}
	return p
}

// setParent notes the page before e, where it is readable.
func (t *pageTable) setParent(e int32, parent *proto.Hash) {
	if parent == nil {
		return
	}
	n := &t.entries[e]
	if p := t.find(key{n.key.ns, *parent}); p != none && p != e {
		n.parent, n.parentBirth = p, t.entries[p].birth
		t.entries[p].children++
	}
}

// add makes the entry of a pending page.
func (t *pageTable) add(k key, offset int64, class int32, queue uint8) int32 {
	e := t.freeHead
	if e != none {
		t.freeHead = t.entries[e].next
	} else {
		t.entries = append(t.entries, entry{})
		e = int32(len(t.entries) - 1)
	}
	n := &t.entries[e]
	*n = entry{key: k, offset: offset, parent: none, prev: none, next: none, birth: n.birth + 1, class: class, queue: queue, state: pending}
	t.byKey[k] = e
	return e
}

// remove frees an entry.
func (t *pageTable) remove(e int32) {
	n := &t.entries[e]
	delete(t.byKey, n.key)
	*n = entry{birth: n.birth, next: t.freeHead, state: free}
	t.freeHead = e
}
