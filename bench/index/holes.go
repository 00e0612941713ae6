package index

import "math/rand/v2"

// holes makes a generator's workers do what an LRU that gives tails up first never does: they lose blocks from the middle of a prompt and
// get some of them back, and they drop everything.
type holes struct {
	chance *rand.Rand
	served [][]uint32 // by worker: the last requests
	heals  []heal     // in no order
}

// heal is a hole that will be filled.
type heal struct {
	worker          int
	req, start, end uint32
	at              uint32 // request
}

const (
	holeShare  = 0.25 // of the requests open a hole
	holeBlocks = 64   // at most
	healShare  = 0.5  // of the holes are filled again without a request that needs them
	healWithin = 200  // requests
	clearEvery = 300  // requests, on average
	servedKept = 8    // requests, of which a hole takes one
)

func newHoles(workers int) *holes {
	return &holes{chance: rand.New(rand.NewPCG(11, 11)), served: make([][]uint32, workers)}
}

// latest returns the last requests with one more.
func latest(served []uint32, req uint32) []uint32 {
	return append(served[max(0, len(served)+1-servedKept):], req)
}

// after is called when a worker has served a request.
func (h *holes) after(g *generator, req uint32, worker int) {
	h.served[worker] = latest(h.served[worker], req)
	if h.chance.Float64() < holeShare {
		h.open(g, req, worker)
	}
	due := h.heals[:0]
	for _, x := range h.heals {
		if x.at > req {
			due = append(due, x)
			continue
		}
		h.fill(g, x)
	}
	h.heals = due
	if h.chance.IntN(clearEvery) == 0 {
		h.clear(g, h.chance.IntN(g.o.Workers))
	}
}

// open removes blocks from the middle of a request that was served lately.
func (h *holes) open(g *generator, now uint32, worker int) {
	req := h.served[worker][h.chance.IntN(len(h.served[worker]))]
	n := uint32(len(g.blocks(req)))
	if n < 3 {
		return
	}
	start := 1 + h.chance.Uint32N(n-2)
	end := start + 1 + h.chance.Uint32N(min(holeBlocks, n-1-start))
	g.ranges(worker, req, start, end, true, func(from, to uint32) {
		for i := from; i < to; i++ {
			g.release(worker, g.blocks(req)[i])
		}
		g.publishRemoval(Op{Remove, uint16(worker), req, from, to})
	})
	if h.chance.Float64() < healShare {
		h.heals = append(h.heals, heal{worker, req, start, end, now + h.chance.Uint32N(healWithin)})
	}
}

// fill stores a hole's blocks again, if the block before it is still there.
func (h *holes) fill(g *generator, x heal) {
	blocks := g.blocks(x.req)
	if !g.caches[x.worker].has(blocks[x.start-1]) {
		return
	}
	for i := x.start - 1; i < x.end; i++ {
		if g.caches[x.worker].has(blocks[i]) {
			g.hold(x.worker, blocks[i], x.req, i) // so that it is not evicted for the rest
		}
	}
	g.evict(x.worker, int(x.end-x.start))
	g.storeMissing(x.worker, x.req, x.start, x.end)
	for i := x.start; i < x.end; i++ {
		g.hold(x.worker, blocks[i], x.req, i)
	}
}

func (h *holes) clear(g *generator, worker int) {
	c := g.caches[worker]
	for _, e := range c.oldest(c.len()) {
		g.release(worker, e.block)
	}
	g.Ops = append(g.Ops, Op{Kind: Clear, Worker: uint16(worker)})
}
