package turns

import "math/bits"

// Begin notes that the prompt of a Turn is sent, and completes the Turn. [Table.End] must follow.
// prefixes are those of Find, and now is a time in any unit.
func (t *Table) Begin(f *Turn, prefixes []uint64, now int64) {
	if f.Kind == None {
		if f.Shared > 0 && f.Shared == len(prefixes) {
			t.marks.put(prefixes[f.Shared-1], shared, t.branches.ended)
		}
		return
	}
	var after branch
	if f.ID == 0 || !t.branches.with(f.ID, func(b *branch) { b.begin(f, now); after = *b }) {
		after = t.add(f, prefixes, now)
	}
	if after.parent != 0 && f.Kind == Next {
		t.decide(f, &after, prefixes)
	}
	t.mark(f, &after, prefixes)
}

// begin notes a turn of an existing branch.
func (b *branch) begin(f *Turn, now int64) {
	if b.running == 0 && f.Kind != Again {
		f.Paused = max(now-b.last, 1)
		if b.pause == 0 {
			b.pause = f.Paused
		}
		b.pause += (f.Paused - b.pause) / pauseShare
	}
	b.running++
	b.last, b.rank, b.exact = now, f.Rank, f.Exact
	if f.name != 0 && !b.named {
		b.session, b.named, b.parent = f.name, true, 0
		f.Session = f.name
	}
	if f.Kind == Again {
		return
	}
	b.turns++
	if f.end == 0 {
		return
	}
	b.prev = b.end
	if f.Kind == Rewritten {
		b.prev, b.fork, b.forked = f.depth, f.depth, b.turns
	}
	b.end = f.end
}

// pauseShare is the weight of the pauses before: a branch's usual pause is that of its last few.
const pauseShare = 4

// add begins a new branch.
func (t *Table) add(f *Turn, prefixes []uint64, now int64) branch {
	random := t.fresh()
	if f.Session == 0 {
		f.Session = random
	}
	b := branch{
		turns: 1, running: 1, last: now, rank: f.Rank, exact: f.Exact, session: f.Session, named: f.name != 0 && f.Session == f.name,
		parent: f.parent, first: uint32(f.Shared), prev: uint32(f.Shared), end: f.end,
		root: f.root, main: f.Kind == First,
	}
	if b.root == 0 {
		b.root = f.end
	}
	if f.end > 0 {
		b.head = prefixes[0]
	}
	f.Turns = 0
	if p, ok := t.branches.get(b.parent); ok {
		b.since = p.turns
	}
	f.ID = t.branches.add(random, b)
	return b
}

// decide makes a branch a session of its own once it runs at the same time as the branch that would
// wait for it.
func (t *Table) decide(f *Turn, b *branch, prefixes []uint64) {
	parent, ok := t.branches.get(b.parent)
	if !ok || parent.running == 0 && !b.beside {
		t.branches.with(f.ID, func(b *branch) { b.since = parent.turns })
		return
	}
	session := t.fresh()
	t.branches.with(f.ID, func(b *branch) { b.parent, b.session, b.main = 0, session, true })
	b.session, f.Session = session, session
	for i := 1; i <= min(int(b.first), len(prefixes)); i = milestone(i) {
		if t.marks.get(prefixes[i-1]) != 0 {
			t.marks.put(prefixes[i-1], shared, t.branches.ended)
		}
	}
}

// milestone returns the next length of a prompt that is marked beside its end, so that prompts that
// leave it early are known: four for each doubling.
func milestone(i int) int { return i + max(1<<max(bits.Len(uint(i))-3, 0), 1) }

// mark marks the end of the prompt, and from the second turn on its milestones.
func (t *Table) mark(f *Turn, b *branch, prefixes []uint64) {
	own := markOf(f.ID, b.turns)
	if n := len(prefixes); f.end > 0 && f.Kind != Again {
		t.markOwn(prefixes[n-1], own, b.session)
	}
	t.markSession(f, b, own)
	if f.end == 0 || f.Kind == Again || b.turns != 2 && b.turns%refresh != 0 {
		return
	}
	shares := 0
	for i := 1; i < len(prefixes); i = milestone(i) {
		if t.markOwn(prefixes[i-1], markOf(f.ID, 0)|kept, b.session) {
			shares = i
		}
	}
	if shares > int(b.first) {
		t.branches.with(f.ID, func(b *branch) { b.first = uint32(shares) })
		f.Shared = shares
	}
}

// markSession marks the branch of a session that went on last. A session of one prompt needs no
// such mark until another prompt leaves it, and most have only one.
func (t *Table) markSession(f *Turn, b *branch, own mark) {
	hash := t.nameHash(b.session)
	switch {
	case b.turns > 1, f.Kind == First && b.named:
	case f.Kind == Branch && f.from != 0 && t.marks.get(hash) == 0:
		own = markOf(f.from, 1)
	default:
		return
	}
	t.marks.put(hash, own, t.branches.ended)
}

// markOwn sets a mark of a session's branch, and reports whether the prefix is shared with other
// sessions. A mark of another branch of the session stays where the new one is a milestone.
func (t *Table) markOwn(hash uint64, own mark, session uint64) bool {
	m := t.marks.get(hash)
	if m&shared != 0 {
		return true
	}
	if other, ok := t.branches.get(m.id()); m != 0 && ok {
		if other.session != session {
			t.marks.put(hash, shared, t.branches.ended)
			return true
		}
		if own.turn() == 0 {
			return false
		}
	}
	t.marks.put(hash, own, t.branches.ended)
	return false
}

// refresh is the number of turns after which the milestones of a branch are marked again: by then
// others may share them, or have displaced them.
const refresh = 8

// End notes the end of a request that Begin noted.
func (t *Table) End(f *Turn, now int64) {
	if f.ID == 0 {
		return
	}
	var after branch
	t.branches.with(f.ID, func(b *branch) {
		b.running = max(b.running-1, 0)
		b.last = now
		after = *b
	})
	if after.parent == 0 {
		return
	}
	if p, ok := t.branches.get(after.parent); ok && p.turns != after.since {
		t.branches.with(f.ID, func(b *branch) { b.beside = true })
	}
}
