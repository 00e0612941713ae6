package radix

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
)

// This file is all that snapshots know of how the index keeps what it holds.

// probe changes with the hash functions: blocks of another release's would never be met again.
func (x *Index) probe() uint64 {
	tokens := make([]uint32, 3*pieceMax/2)
	for i := range tokens {
		tokens[i] = uint32(i) * 0x9e3779b9
	}
	h := Hash(0)
	for n := range tokens { // whole pieces, tails and both
		h ^= x.HashBlock(tokens[:n+1])
		h = x.Mix(h, []byte{byte(n)})
	}
	return uint64(h)
}

// image is what one worker holds at a moment.
type image struct {
	name    string
	meta    []byte
	parts   []part // what the snapshot lacks of the worker's stretches, each behind its parent
	holds   int
	body    []byte // the holds, encoded
	odd     []oddEntry
	aliases map[uint64]aliasImage
	entries int
}

// part is a new stretch, or what an old one lacks. Its slices alias the run's content, which never changes.
type part struct {
	number uint32 // of the stretch
	fresh  bool
	root   bool      // it begins a domain's chains
	parent uint32    // number of the stretch that it hangs on, unless root
	offset uint32    // blocks of the parent before it
	domain Domain    // if root
	key    DomainKey // of it: it may be freed before it is written
	blocks []Hash
	names  []uint64
}

// seat is a block of a stretch, with copies.
type seat struct {
	stretch, offset uint32
	n               copies
}

type oddEntry struct {
	key uint64
	at  seat
}

type aliasImage struct {
	places []seat
	lost   [tiers]int
}

// capture copies what a worker holds, with its lock held: nobody else changes its holds and table, and what it holds keeps its runs and all
// above them as long as is needed here.
func (s *SnapshotWriter) capture(w Worker) (image, error) {
	o := s.x.lock(w)
	if o == nil {
		return image{}, fmt.Errorf("cannot take worker %d: %w", w, ErrUnknownWorker)
	}
	defer o.mu.Unlock()
	im := image{entries: o.table.len + o.named}
	last := uint32(0)
	for _, h := range o.holds {
		if h == nil {
			continue
		}
		n := s.needLocked(&im, h.run, h.top())
		im.holds++
		im.body = binary.AppendVarint(im.body, int64(n)-int64(last))
		for t := range h.has {
			im.body = s.pieces(im.body, h.has[t])
		}
		last = n
	}
	at := func(h *hold, offset uint32, n copies) seat { return seat{s.known[h.run.id].number, offset, n} }
	im.odd = make([]oddEntry, 0, o.table.len-len(o.aliases))
	for i := range o.table.slots {
		if e := &o.table.slots[i]; !e.empty() && e.handle != aliased {
			im.odd = append(im.odd, oddEntry{e.key, at(o.holds[e.handle], e.offset, e.n)})
		}
	}
	im.aliases = make(map[uint64]aliasImage, len(o.aliases))
	for key, a := range o.aliases {
		c := aliasImage{lost: a.lost}
		for _, p := range a.places {
			c.places = append(c.places, at(p.hold, p.offset, p.n))
		}
		im.aliases[key] = c
	}
	return im, nil
}

// stem is the first blocks of a run.
type stem struct {
	run    *run
	blocks uint32
}

// needLocked returns the number of the stretch of a run, and adds to the parts what the snapshot lacks of its first blocks and of those that
// lead to it. The lock of a worker that holds the last of these blocks is held.
func (s *SnapshotWriter) needLocked(im *image, r *run, blocks int) uint32 {
	s.stems = s.stems[:0]
	for q, n := r, uint32(blocks); q.parent != nil && s.known[q.id].blocks < n; q, n = q.parent, q.offset {
		s.stems = append(s.stems, stem{q, n})
	}
	for _, st := range slices.Backward(s.stems) {
		q := st.run
		k, old := s.known[q.id]
		if !old {
			k.number = uint32(len(s.known))
		}
		blocks, names := q.face.Load().all(), q.listed()
		var key DomainKey
		if q.parent.parent == nil {
			key = s.x.keyOf(q.domain)
		}
		im.parts = append(im.parts, part{
			number: k.number, fresh: !old,
			root: q.parent.parent == nil, parent: s.known[q.parent.id].number, offset: q.offset, domain: q.domain, key: key,
			blocks: blocks[k.blocks:st.blocks], names: names[k.blocks:st.blocks],
		})
		s.known[q.id] = stretch{k.number, st.blocks}
	}
	return s.known[r.id].number
}

// pieces encodes the set bits: how many pieces, and for each the bits left out before it and its length.
func (s *SnapshotWriter) pieces(dst []byte, words []uint64) []byte {
	s.bits = s.bits[:0]
	for from := nextBit(words, 0, 0); from < 64*len(words); {
		to := nextBit(words, from, ^uint64(0))
		s.bits = append(s.bits, from, to)
		from = nextBit(words, to, 0)
	}
	dst = binary.AppendUvarint(dst, uint64(len(s.bits)/2))
	last := 0
	for _, at := range s.bits {
		dst = binary.AppendUvarint(dst, uint64(at-last))
		last = at
	}
	return dst
}

// nextBit returns the first bit from i on that is set in words ^ flip, or the number of bits.
func nextBit(words []uint64, i int, flip uint64) int {
	for w := i / 64; w < len(words); w++ {
		if v := (words[w] ^ flip) >> (i % 64); v != 0 {
			return i + bits.TrailingZeros64(v)
		}
		i = 64 * (w + 1)
	}
	return 64 * len(words)
}

// laid is a stretch of a snapshot in the index that is being loaded. Mostly it is one run. Where content went and came again while the
// snapshot was taken, two stretches are in one run; what a run refuses goes to the next.
type laid struct {
	blocks int
	start  spot
	end    spot
	pieces []segment
	names  []uint64 // nil if the runs list the same
}

// segment is n blocks of a run.
type segment struct {
	run       *run
	offset, n int
}

// spot returns the point behind the first n blocks.
func (l *laid) spot(n int) spot {
	at := l.start
	for _, p := range l.pieces {
		if n == 0 {
			break
		}
		k := min(n, p.n)
		at = spot{p.run, p.offset + k}
		n -= k
	}
	return at
}

// each calls f for the parts of the blocks from an offset on, with their names.
func (l *laid) each(offset, n int, f func(r *run, at int, names []uint64)) {
	skip := offset
	for _, p := range l.pieces {
		if skip >= p.n {
			skip -= p.n
			continue
		}
		k := min(n, p.n-skip)
		names := p.run.listed()[p.offset+skip:][:k]
		if l.names != nil {
			names = l.names[offset:][:k]
		}
		f(p.run, p.offset+skip, names)
		offset, n, skip = offset+k, n-k, 0
		if n == 0 {
			return
		}
	}
}

// lay puts blocks behind the last of a stretch. Nobody else knows the index, so nothing is locked, here and below.
func (x *Index) lay(l *laid, blocks []Hash, names []uint64) {
	for len(blocks) > 0 {
		n, next := x.growLocked(l.end, blocks, names)
		if n > 0 {
			r, at := l.end.run, l.end.offset
			if l.names == nil && agree(r.listed()[at:], names[:n]) < n {
				l.names = l.list()
			}
			if l.names != nil {
				l.names = append(l.names, names[:n]...)
			}
			if last := len(l.pieces) - 1; last >= 0 && l.pieces[last].run == r {
				l.pieces[last].n += n
			} else {
				l.pieces = append(l.pieces, segment{r, at, n})
			}
			l.blocks += n
			l.end.offset += n
		}
		blocks, names = blocks[n:], names[n:]
		if next != nil {
			l.end = spot{next, 0}
		}
	}
}

// list returns the names of a stretch that its runs list. It is never nil.
func (l *laid) list() []uint64 {
	names := make([]uint64, 0, l.blocks)
	l.each(0, l.blocks, func(_ *run, _ int, part []uint64) { names = append(names, part...) })
	return names
}

// enter makes a worker hold a copy of each of n blocks of a stretch by its names.
func (x *Index) enter(o *worker, l *laid, offset, n int, t Tier) {
	l.each(offset, n, func(r *run, at int, names []uint64) {
		h := o.holdLocked(r)
		x.enterLocked(o, h, names, at, t)
		o.publishLocked(h)
		x.weighLocked(r)
	})
}

// publishLocked tells look-ups what is held.
func (o *worker) publishLocked(h *hold) {
	h.advance()
	h.run.setLeadLocked(h.slot, h.lead())
	o.weighLocked(h)
}

// placeOf returns the place of a block in a stretch, with a worker's hold on it.
func (x *Index) placeOf(o *worker, l *laid, offset uint32, n copies) place {
	at := l.spot(int(offset) + 1)
	h := o.holdLocked(at.run)
	x.weighLocked(at.run)
	return place{hold: h, offset: uint32(at.offset - 1), n: n}
}

// enterOdd makes a worker hold a block by an entry of its table. It fails if the worker has the name already.
func (x *Index) enterOdd(o *worker, key uint64, p place) bool {
	if x.holds(o, key) {
		return false
	}
	o.table.insert(entry{key: key, handle: p.hold.handle, offset: p.offset, n: p.n})
	for t, n := range p.n {
		if n > 0 {
			p.hold.acquire(p.offset, Tier(t))
		}
	}
	o.publishLocked(p.hold)
	return true
}

// enterAlias makes a worker hold a block in each of several domains by one name. It fails if the alias is not sound.
func (x *Index) enterAlias(o *worker, key uint64, a *alias) bool {
	if x.holds(o, key) || !a.sound() {
		return false
	}
	if o.aliases == nil {
		o.aliases = make(map[uint64]*alias)
	}
	o.aliases[key] = a
	o.table.insert(entry{key: key, handle: aliased, n: copies{1}}) // as in becomeAliasLocked
	for i := range a.places {
		p := &a.places[i]
		p.hold.acquire(p.offset, tierPin)
		for t := range Tier(tiers) {
			if a.credited(p, t) {
				p.hold.acquire(p.offset, t)
			}
		}
		o.publishLocked(p.hold)
	}
	return true
}

// sound reports whether an alias is one that stores and removals can lead to.
func (a *alias) sound() bool {
	for i := range a.places {
		p := &a.places[i]
		if p.n == (copies{}) || a.in(p.hold.run.domain) != p {
			return false
		}
	}
	for t, lost := range a.lost {
		if total := a.total(Tier(t)); total < 0 || total == 0 && lost > 0 {
			return false
		}
	}
	return len(a.places) >= 2
}

// holds reports whether the worker knows an engine hash.
func (x *Index) holds(o *worker, key uint64) bool {
	return o.table.find(key) != nil || x.heldLocked(o, key).hold != nil
}

// idle reports whether there is a run that nobody needs.
func (x *Index) idle() (found bool) {
	x.children.each(func(r *run) { found = found || r.kids == 0 && len(r.holds) == 0 })
	return found
}
