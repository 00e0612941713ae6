package radix

import (
	"slices"
	"sync/atomic"
	"unsafe"
)

// Overlap is what one worker holds of a chain.
type Overlap struct {
	Worker Worker
	Blocks int32 // leading blocks held in any tier
	GPU    int32 // leading blocks held on the GPU; at most Blocks
}

// Match appends to dst, for each worker that holds the first block of chain, how many leading blocks it holds, in no order.
// It takes no lock and allocates only to grow dst.
func (x *Index) Match(dst []Overlap, d Domain, chain []Hash) []Overlap {
	f := x.root(d)
	if f == nil || len(chain) == 0 {
		return dst
	}
	touch(chain[:min(len(chain), ahead)])
	return x.walk(dst, &x.children, x.children.find(f, 0, chain[0]), chain)
}

// Foresee appends to dst, for each worker of which the first block of chain is predicted in the scope, how many leading blocks are:
// Blocks are those of all predictions, and GPU those of settled ones, see [Prediction]. What the worker holds anyhow is not in it, nor is it
// needed: a prediction begins with the first block. It takes no lock and allocates only to grow dst.
func (x *Index) Foresee(dst []Overlap, s Scope, chain []Hash) []Overlap {
	if x.foretold.runs.Load() == 0 || len(chain) == 0 {
		return dst
	}
	return x.walk(dst, &x.foretold.children, x.foretold.first(s, chain[0]), chain)
}

// walk goes down from the run that chain begins with, as long as somebody holds all so far.
func (x *Index) walk(dst []Overlap, c *children, f *face, chain []Hash) []Overlap {
	if f == nil {
		return dst
	}
	m, seat := x.matching(dst)
	for f != nil {
		rest := chain[m.depth:]
		n := agree(f.hashes(), rest)
		if n < len(rest) {
			// The slot comes from memory while this run's holders are credited.
			c.fetch(f, uint32(n), rest[n])
		}
		if !m.visit(f, n) || n == len(rest) {
			break
		}
		f = c.find(f, uint32(n), rest[n])
	}
	x.scratch.Put(seat)
	return m.out
}

// ahead is how many blocks of a chain are fetched before it is known whether they are needed.
const ahead = 128

// touch brings blocks into the cache side by side, where the comparison would meet the first few lines one after the other.
func touch(blocks []Hash) {
	for i := cacheLine / 8; i < len(blocks); i += cacheLine / 8 {
		atomic.LoadUint64((*uint64)(&blocks[i])) // is not optimized away: it is atomic
	}
}

// matching begins a look-up. The seat goes back to x.scratch.
func (x *Index) matching(dst []Overlap) (matching, *[]uint32) {
	seat := x.scratch.Get().(*[]uint32)
	if workers := len(*x.workers.Load()); len(*seat) < workers {
		*seat = make([]uint32, workers)
	}
	return matching{out: dst, base: len(dst), seat: *seat}, seat
}

// matching is the state of one look-up.
type matching struct {
	out   []Overlap
	base  int      // out[base:] are ours
	depth int      // blocks of the runs before this one
	seat  []uint32 // worker to index in out. Never cleared: an index is right only if out agrees (Briggs and Torczon, 1993)
}

// visit credits what workers hold of the next run's first n blocks, and reports whether anyone holds all so far.
func (m *matching) visit(f *face, n int) (onward bool) {
	words, l := f.words()
	if m.depth == 0 {
		onward = m.begin(words, l, int32(n))
	} else {
		onward = m.goOn(words, int32(n))
	}
	m.depth += n
	return onward
}

// begin makes an overlap for each worker that holds a part of a first run's first n blocks.
func (m *matching) begin(words []atomic.Uint64, l *leads, n int32) (onward bool) {
	adds := uint32(0)
	if l != nil {
		adds = l.adds.Load()
	}
	out := slices.Grow(m.out, len(words))
	k := len(out)
	out = out[:k+len(words)]
	seat := m.seat
	for i := range words {
		v := words[i].Load()
		blocks, w := min(leadAny(v), n), leadWorker(v)
		if blocks == 0 || int(w) >= len(seat) { // the latter was added after this look-up began
			continue
		}
		out[k] = Overlap{w, blocks, min(leadGPU(v), n)}
		seat[w] = uint32(k)
		k++
		onward = onward || blocks == n
	}
	m.out = out[:k]
	if l != nil && l.adds.Load() != adds {
		m.unite()
	}
	return onward
}

// unite drops the second overlap of a worker that was met twice.
func (m *matching) unite() {
	k := m.base
	for i, o := range m.out[m.base:] {
		if int(m.seat[o.Worker]) != m.base+i {
			continue
		}
		m.out[k] = o
		m.seat[o.Worker] = uint32(k)
		k++
	}
	m.out = m.out[:k]
}

// goOn adds what workers that hold all so far hold of the first n blocks of the run that follows.
func (m *matching) goOn(words []atomic.Uint64, n int32) (onward bool) {
	depth := int32(m.depth)
	for i := range words {
		v := words[i].Load()
		blocks := min(leadAny(v), n)
		if blocks == 0 {
			continue
		}
		o := m.find(leadWorker(v))
		if o == nil || o.Blocks != depth {
			continue // a hole before this run
		}
		if o.GPU == depth {
			o.GPU += min(leadGPU(v), n)
		}
		o.Blocks += blocks
		onward = onward || blocks == n
	}
	return onward
}

// find returns the worker's overlap, or nil.
func (m *matching) find(w Worker) *Overlap {
	if int(w) >= len(m.seat) {
		return nil // added after this look-up began
	}
	i := int(m.seat[w])
	if i >= m.base && i < len(m.out) && m.out[i].Worker == w {
		return &m.out[i]
	}
	return nil
}

// agree returns how many blocks of a and b are equal from the start on.
func agree[H ~uint64](a, b []H) int {
	n := min(len(a), len(b))
	a, b = a[:n], b[:n]
	// Mostly all are equal. Where not, what was compared is in the cache when it is searched.
	if equal(a, b) {
		return n
	}
	i := 0
	for i+stride <= n && equal(a[i:i+stride], b[i:i+stride]) {
		i += stride
	}
	for i < n && a[i] == b[i] {
		i++
	}
	return i
}

// stride is the blocks that agree searches at once: 256 bytes, one call of the runtime's comparison.
const stride = 32

// page is how many blocks lie on a page of memory.
const page = 4096 / 8

// equal compares what has the same length. The processor fetches ahead within a page only: so the pages that follow are touched
// first, and their misses overlap.
func equal[H ~uint64](a, b []H) bool {
	for i := page; i < len(a); i += page {
		atomic.LoadUint64((*uint64)(unsafe.Pointer(&a[i])))
		atomic.LoadUint64((*uint64)(unsafe.Pointer(&b[i])))
	}
	return text(a) == text(b)
}

// text returns the memory of a for comparison.
func text[H ~uint64](a []H) string {
	return unsafe.String((*byte)(unsafe.Pointer(unsafe.SliceData(a))), len(a)*8)
}
