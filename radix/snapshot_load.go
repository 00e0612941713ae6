package radix

import "encoding/binary"

// loader builds an index from the records of a snapshot. No other goroutine knows the index, so
// it locks no runs.
type loader struct {
	recordReader
	x         *Index
	domains   []Domain
	stretches []loadedStretch // by number
	workers   []Restored
	count     SnapshotCounts
	bytes     int // of the index, estimated
	limit     int // of bytes
	ended     bool

	hashes       []Hash   // scratch
	engineHashes []uint64 // scratch
}

const (
	// stretchBytes and pieceBytes are the estimates for a stretch without its blocks and for a
	// holding, with their shares of tables.
	stretchBytes, pieceBytes = 360, 200

	// maxStretch bounds the blocks of one record.
	maxStretch = coverageMask
)

// charge counts bytes by which the index grows.
func (l *loader) charge(bytes int) {
	if l.bytes += bytes; l.bytes > l.limit {
		l.fail(errSize)
	}
}

func (l *loader) record() {
	switch l.byte() {
	case recordDomain:
		l.domain()
	case recordStretch:
		l.stretch()
	case recordExtension:
		if i := l.index(len(l.stretches)); l.err == nil {
			l.blocks(&l.stretches[i])
		}
	case recordWorker:
		l.worker()
	case recordEnd:
		l.end()
	default:
		l.fail(errRecord)
	}
}

func (l *loader) domain() {
	k := DomainKey{
		Model: string(l.text()), BlockSize: l.number(1 << 30),
		LoRA: string(l.text()), Salt: string(l.text()), Bigram: l.number(1) == 1,
	}
	if l.err != nil {
		return
	}
	if _, ok := l.x.FindDomain(k); ok {
		l.fail(errTwice)
		return
	}
	l.charge(stretchBytes + len(k.Model) + len(k.LoRA) + len(k.Salt))
	l.domains = append(l.domains, l.x.Domain(k))
}

func (l *loader) stretch() {
	var at position
	if parent := l.number(len(l.stretches)); parent > 0 {
		p := &l.stretches[parent-1]
		at = p.position(l.number(p.blocks))
	} else if i := l.index(len(l.domains)); l.err == nil {
		root := l.x.tree.domains.root(l.domains[i])
		if root == nil {
			l.fail(errIdle) // freed: it was too long without blocks
			return
		}
		at = position{root.run, 0}
	}
	if l.err != nil {
		return
	}
	l.stretches = append(l.stretches, loadedStretch{start: at, end: at})
	l.charge(stretchBytes)
	l.blocks(&l.stretches[len(l.stretches)-1])
}

// blocks reads blocks with their engine hashes and appends them to a stretch.
func (l *loader) blocks(to *loadedStretch) {
	n := l.number(maxStretch)
	if n == 0 {
		l.fail(errRange)
	}
	l.hashes = readWords(&l.recordReader, l.hashes[:0], n)
	l.engineHashes = readWords(&l.recordReader, l.engineHashes[:0], n)
	// Twice, as the block table takes as much.
	if l.charge(2 * n * int(blockBytes)); l.err != nil {
		return
	}
	to.append(&l.x.tree, l.hashes, l.engineHashes)
	l.count.Blocks += n
}

func (l *loader) end() {
	l.ended = true
	l.count.Stretches, l.count.Workers = len(l.stretches), len(l.workers)
	var c SnapshotCounts
	for _, n := range []*int{&c.Stretches, &c.Blocks, &c.Workers, &c.Entries} {
		*n = l.number(1 << 40)
	}
	if c != l.count {
		l.fail(errCounts)
	}
}

// worker reads a worker with its holdings, entries and aliases.
func (l *loader) worker() {
	name, meta := l.text(), l.text()
	if len(l.workers) == maxSnapshotWorkers {
		l.fail(errRange)
	}
	if l.err != nil {
		return
	}
	id := l.x.AddWorker()
	l.workers = append(l.workers, Restored{id, string(name), meta})
	w := l.x.workers.lock(id)
	defer w.unlock()
	at := 0
	for n := l.number(len(l.stretches)); n > 0 && l.err == nil; n-- {
		at = l.holding(w, at)
	}
	at = 0
	for n := l.number(1 << 40); n > 0 && l.err == nil; n-- {
		at = l.entry(w, at)
	}
	for n := l.number(1 << 40); n > 0 && l.err == nil; n-- {
		l.alias(w)
	}
	l.count.Entries += w.entries.len + w.listed
}

// holding reads the listed copies of a stretch, and returns its number.
func (l *loader) holding(w *worker, last int) int {
	v, err := binary.ReadVarint(l.in)
	l.check(err)
	i := last + int(v)
	if i < 0 || i >= len(l.stretches) {
		l.fail(errRange)
		return 0
	}
	of := &l.stretches[i]
	l.charge(pieceBytes * len(of.slices))
	entries := w.entries.len
	for t := range Tier(tiers) {
		at := 0
		for n := l.number(of.blocks); n > 0 && l.err == nil; n-- {
			at += l.number(of.blocks - at)
			size := l.number(of.blocks - at)
			if l.err != nil || size == 0 {
				l.fail(errRange)
				return 0
			}
			of.hold(&storing{tree: &l.x.tree, worker: w, tier: t}, at, size)
			at += size
		}
		l.charge(at / 8)
	}
	l.charge(2 * int(entryBytes) * (w.entries.len - entries))
	if len(w.deferred) > 0 { // an engine hash that has another block already
		l.fail(errTwice)
	}
	return i
}

// block reads a block of a stretch with its copies, and returns the stretch's number.
func (l *loader) block(w *worker, last int) (b blockRef, i int) {
	i = last + l.index(len(l.stretches)-last)
	if l.err != nil {
		return b, 0
	}
	offset := l.index(l.stretches[i].blocks)
	var n copies
	for t := range n {
		n[t] = uint16(l.number(1<<16 - 1))
	}
	if n == (copies{}) {
		l.fail(errRange)
	}
	if l.charge(pieceBytes + 2*int(entryBytes)); l.err != nil {
		return b, 0
	}
	at := l.stretches[i].position(offset + 1)
	h := w.holdings.onLocked(at.run, w.id)
	l.x.tree.accountLocked(at.run)
	return blockRef{holding: h, offset: uint32(at.offset - 1), copies: n}, i
}

// entry reads an entry, and returns the number of its stretch.
func (l *loader) entry(w *worker, last int) int {
	b, i := l.block(w, last)
	key := l.word()
	if l.err != nil {
		return i
	}
	if l.known(w, key) {
		l.fail(errTwice)
		return i
	}
	w.entries.insert(b.entry(key))
	for t, n := range b.copies {
		if n > 0 {
			b.holding.addEntry(b.offset, Tier(t))
		}
	}
	l.x.tree.publishLocked(w, b.holding)
	return i
}

// alias reads an alias.
func (l *loader) alias(w *worker) {
	key := l.word()
	a := new(alias)
	for t := range a.removals {
		a.removals[t] = l.number(1 << 32)
	}
	for n := l.number(len(l.domains)); n > 0 && l.err == nil; n-- {
		b, _ := l.block(w, 0)
		a.blocks = append(a.blocks, b)
	}
	if l.err != nil {
		return
	}
	if l.known(w, key) || !a.valid() {
		l.fail(errTwice)
		return
	}
	w.addAliasLocked(key, a)
	w.entries.insert(aliasEntry(key))
	for i := range a.blocks {
		b := &a.blocks[i]
		b.holding.addEntry(b.offset, tierPin)
		for t := range Tier(tiers) {
			if a.credited(b, t) {
				b.holding.addEntry(b.offset, t)
			}
		}
		l.x.tree.publishLocked(w, b.holding)
	}
}

// known reports whether the worker has blocks of an engine hash.
func (l *loader) known(w *worker, key uint64) bool {
	return w.entries.find(key) != nil || w.findListed(&l.x.tree.blocks, key).holding != nil
}

// hasIdleRun reports whether there is a run without holders and children.
func hasIdleRun(t *tree) (found bool) {
	t.children.all(func(r *run) { found = found || r.children == 0 && len(r.holders.slots) == 0 })
	return found
}
