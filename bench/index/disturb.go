package index

import "math/rand/v2"

// disturber makes workers lose blocks within a prompt, store some of them again, and drop all
// blocks, which an LRU that evicts tails first never does.
type disturber struct {
	random  *rand.Rand
	served  [][]uint32 // by worker: its last requests
	refills []refill   // in no order
}

// refill is a hole that the worker will store again.
type refill struct {
	worker          int
	req, start, end uint32
	at              uint32 // request
}

const (
	holeShare      = 0.25 // of the requests open a hole
	holeBlocks     = 64   // at most
	refillShare    = 0.5  // of the holes are stored again without a request that needs them
	refillWithin   = 200  // requests
	clearEvery     = 300  // requests, on average
	recentRequests = 8    // requests; a hole is in one of them
)

func newDisturber(workers int) *disturber {
	return &disturber{random: rand.New(rand.NewPCG(11, 11)), served: make([][]uint32, workers)}
}

// appendRecent appends a request to the last recentRequests.
func appendRecent(served []uint32, req uint32) []uint32 {
	return append(served[max(0, len(served)+1-recentRequests):], req)
}

// after disturbs workers after a request was served.
func (h *disturber) after(g *generator, req uint32, worker int) {
	h.served[worker] = appendRecent(h.served[worker], req)
	if h.random.Float64() < holeShare {
		h.open(g, req, worker)
	}
	due := h.refills[:0]
	for _, x := range h.refills {
		if x.at > req {
			due = append(due, x)
			continue
		}
		h.refill(g, x)
	}
	h.refills = due
	if h.random.IntN(clearEvery) == 0 {
		h.clear(g, h.random.IntN(g.o.Workers))
	}
}

// open removes blocks within a recent request.
func (h *disturber) open(g *generator, now uint32, worker int) {
	req := h.served[worker][h.random.IntN(len(h.served[worker]))]
	n := uint32(len(g.blocks(req)))
	if n < 3 {
		return
	}
	start := 1 + h.random.Uint32N(n-2)
	end := start + 1 + h.random.Uint32N(min(holeBlocks, n-1-start))
	g.ranges(worker, req, start, end, true, func(from, to uint32) {
		for i := from; i < to; i++ {
			g.release(worker, g.blocks(req)[i])
		}
		g.Ops = append(g.Ops, Op{Remove, uint16(worker), req, from, to})
	})
	if h.random.Float64() < refillShare {
		h.refills = append(h.refills, refill{worker, req, start, end, now + h.random.Uint32N(refillWithin)})
	}
}

// refill stores a hole's blocks again, if the worker still holds the block before.
func (h *disturber) refill(g *generator, x refill) {
	blocks := g.blocks(x.req)
	if !g.caches[x.worker].Has(blocks[x.start-1]) {
		return
	}
	for i := x.start - 1; i < x.end; i++ {
		if g.caches[x.worker].Has(blocks[i]) {
			g.hold(x.worker, blocks[i], x.req, i) // so that it is not evicted for the others
		}
	}
	g.evict(x.worker, int(x.end-x.start))
	g.storeMissing(x.worker, x.req, x.start, x.end)
	for i := x.start; i < x.end; i++ {
		g.hold(x.worker, blocks[i], x.req, i)
	}
}

func (h *disturber) clear(g *generator, worker int) {
	c := g.caches[worker]
	for _, e := range c.Oldest(c.Len()) {
		g.release(worker, e.Key)
	}
	g.Ops = append(g.Ops, Op{Kind: Clear, Worker: uint16(worker)})
}
