package turns

// Find returns the place of a prompt in its session, and changes nothing. prefixes are hashes of
// the prompt's beginnings, without units at its end that the next turn may not repeat, such as the
// beginning of the answer. name is the session's name as a number, 0 for none. answer: it is the
// name of an answer, see [Table.Name], so that a prompt without a mark is the new part of a turn.
func (t *Table) Find(prefixes []uint64, name uint64, answer bool) Turn {
	f := Turn{name: name, end: uint32(len(prefixes))}
	depth := len(prefixes)
	if depth > 0 && !t.branches.begins(prefixes[0]) {
		depth = 0 // no branch begins like it
	}
	for i := depth; i > 0; i-- {
		m := t.marks.get(prefixes[i-1])
		if m == 0 {
			continue
		}
		if m&shared != 0 {
			f.Shared = i
			break
		}
		if b, ok := t.branches.get(m.id()); ok {
			f.depth = uint32(i)
			t.place(&f, m, &b)
			break
		}
	}
	if f.Kind == None {
		t.byName(&f, prefixes, answer)
	}
	f.Named = f.Named || f.name != 0 && f.Session == f.name
	return f
}

// place fills in the place of a prompt with its deepest mark m, of branch b.
func (t *Table) place(f *Turn, m mark, b *branch) {
	d := f.depth
	onPath := d <= b.fork || m.turn() >= b.forked
	f.Shared = int(b.first)
	switch {
	case onPath && d == b.end && d == f.end && (b.running > 0 || b.named && f.name != 0 && f.name != b.session):
		// Equal prompts at once, or with several names, are of several users, or a flood.
		f.Shared = int(d)
		return
	case onPath && d == b.end && b.running == 0:
		f.ID, f.Session, f.Turns, f.Pause, f.Exact, f.Kind = m.id(), b.session, int(b.turns), b.pause, b.exact, Next
		if d == f.end {
			f.Kind = Again
		}
	case onPath && d < b.end && d >= b.prev && d > b.first && b.running == 0:
		f.ID, f.Session, f.Turns, f.Pause, f.Exact, f.Kind = m.id(), b.session, int(b.turns), b.pause, b.exact, Rewritten
	case d >= b.root:
		f.Session, f.Kind, f.Shared, f.root, f.from = b.session, Branch, int(d), b.root, m.id()
	default:
		f.Shared = int(d)
		t.sameRoot(f, m, b)
	}
}

// sameRoot places a prompt that leaves the first prompt of a session, at mark own of branch b.
func (t *Table) sameRoot(f *Turn, own mark, b *branch) {
	if b.named || f.name != 0 { // then the name decides
		return
	}
	// The branch that went on last is the one that would wait for this one.
	m := t.marks.get(t.nameHash(b.session))
	latest, ok := t.branches.get(m.id())
	if m == 0 && b.main && b.turns == 1 { // it is the only one
		m, latest, ok = own, *b, true
	}
	if m == 0 || !ok || latest.session != b.session {
		return
	}
	parent := m.id()
	if latest.running > 0 { // a sub-agent may run beside others, and the branch that waits does not
		if parent = latest.parent; parent == 0 {
			return
		}
	}
	f.Kind, f.Session, f.from, f.parent = Branch, b.session, own.id(), parent
}

// byName places a prompt without a branch to continue.
func (t *Table) byName(f *Turn, prefixes []uint64, answer bool) {
	if f.name == 0 {
		if int(f.end) > f.Shared { // else all of the prompt is shared
			f.Kind = First
		}
		return
	}
	f.Kind, f.Named, f.Session = First, true, f.name
	m := t.marks.get(t.nameHash(f.name))
	b, ok := t.branches.get(m.id())
	if m == 0 || !ok {
		return
	}
	f.Kind, f.Session, f.root = Branch, b.session, b.root
	switch {
	case answer:
		f.end = 0
		fallthrough
	case f.end == 0, // of the prompt, nothing but its name is known
		// The last prompt is other sessions' too, and the name tells whose turn this is.
		b.end > 0 && b.end < f.end && b.head == prefixes[0] && int(b.end) <= f.Shared && t.marks.get(prefixes[b.end-1])&shared != 0:
		f.Kind, f.ID, f.Turns, f.Pause = Next, m.id(), int(b.turns), b.pause
	}
}
