package radix

// Overlap is what one worker holds of a chain.
type Overlap struct {
	Worker Worker
	Blocks int // leading blocks held in any tier
	GPU    int // leading blocks held on the GPU; at most Blocks
}

// Match appends to dst, for each worker that holds the first block of chain, how many leading blocks it holds, in no order.
// It takes no lock and allocates only to grow dst.
func (x *Index) Match(dst []Overlap, d Domain, chain []Hash) []Overlap {
	r := x.root(d)
	if r == nil || len(chain) == 0 {
		return dst
	}
	seat := x.scratch.Get().(*[]uint32)
	if workers := len(*x.workers.Load()); len(*seat) < workers {
		*seat = make([]uint32, workers)
	}
	m := matching{out: dst, base: len(dst), seat: *seat}
	at := 0
	for m.depth < len(chain) {
		r = x.children.find(r, uint32(at), chain[m.depth])
		if r == nil {
			break
		}
		at = agree(*r.blocks.Load(), chain[m.depth:])
		if !m.visit(r, at) {
			break
		}
	}
	x.scratch.Put(seat)
	return m.out
}

// matching is the state of one look-up.
type matching struct {
	out   []Overlap
	base  int      // out[base:] are ours
	depth int      // blocks of the runs before this one
	seat  []uint32 // worker to index in out. Never cleared: an index is right only if out agrees (Briggs and Torczon, 1993)
}

// visit credits what workers hold of the next run's first n blocks, and reports whether anyone holds all so far.
func (m *matching) visit(r *run, n int) bool {
	l := r.leads.Load()
	if l == nil {
		return false
	}
	onward := false
	used := int(l.used.Load())
	for i := range l.words[:used] {
		v := l.words[i].Load()
		blocks, gpu := min(leadAny(v), n), min(leadGPU(v), n)
		if blocks == 0 {
			continue
		}
		o := m.find(leadWorker(v))
		if o == nil || o.Blocks != m.depth {
			continue // a hole before this run
		}
		if o.GPU == m.depth {
			o.GPU += gpu
		}
		o.Blocks += blocks
		onward = onward || blocks == n
	}
	m.depth += n
	return onward
}

// find returns the worker's overlap. In the first run, it is made.
func (m *matching) find(w Worker) *Overlap {
	if int(w) >= len(m.seat) {
		return nil // added after this look-up began
	}
	i := int(m.seat[w])
	if i >= m.base && i < len(m.out) && m.out[i].Worker == w {
		return &m.out[i]
	}
	if m.depth > 0 {
		return nil
	}
	i = len(m.out)
	m.seat[w] = uint32(i)
	m.out = append(m.out, Overlap{Worker: w})
	return &m.out[i]
}
