package index

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/warmpath/warmpath/radix"
)

// Options say how [Generate] serves a trace.
type Options struct {
	Workers  int
	Blocks   int  // a worker's cache
	IDBlocks int  // blocks of an id of the trace: 32 of 16 tokens
	Random   bool // route by chance; else to the least queue and cost
	Holes    bool // see [holes]
	// FrontFirst makes workers remove what they evict from the first block to the last, as SGLang removes the pages of a node of its
	// tree. An op cannot say it at once, so each block is an op.
	FrontFirst bool
}

// warmShare of the requests are served before the look-ups whose answers are kept; the rest is for writes beside look-ups.
const warmShare = 0.7

// around is how many requests before and behind that moment are looked up.
const around = 1500

// Generate serves a trace by simulated workers, each an LRU that gives the tail of a prompt up first, and returns what they publish.
// For the same trace and options, with neither holes nor FrontFirst, it is what the generator of the peers' harness makes, byte for
// byte; that one goes to 256 workers.
func Generate(trace []Request, o Options) (*Workload, error) {
	switch {
	case len(trace) == 0:
		return nil, errors.New("cannot generate a workload: the trace is empty")
	case o.Workers < 1 || o.Workers > math.MaxUint16:
		return nil, fmt.Errorf("cannot generate a workload for %d workers: give 1 to %d", o.Workers, math.MaxUint16)
	case o.IDBlocks < 1 || idTokens%o.IDBlocks != 0:
		return nil, fmt.Errorf("cannot divide an id of %d tokens into %d blocks: give a divisor of %d", idTokens, o.IDBlocks, idTokens)
	}
	w := &Workload{Workers: o.Workers, IDBlocks: o.IDBlocks}
	w.addRequests(trace)
	g := newGenerator(w, o)
	for r := range w.prompt {
		// A worker would have to evict what it serves.
		if n := len(w.Content(uint32(r))); n > o.Blocks {
			return nil, fmt.Errorf("cannot serve request %d of %d blocks from a cache of %d: give workers more blocks", r, n, o.Blocks)
		}
	}
	g.serve(trace)
	return w, nil
}

// addRequests makes the blocks of all requests: whole ones only.
func (w *Workload) addRequests(trace []Request) {
	w.from = append(w.from, 0)
	tokens := idTokens / w.IDBlocks
	for i, r := range trace {
		n := min(len(r.HashIDs)*w.IDBlocks, max(r.InputLength/tokens, 1))
		name := uint64(0)
		for j := range n + r.OutputLength/tokens {
			h := decodeHash(uint64(i), uint64(j-n))
			if j < n {
				h = promptHash(r.HashIDs[j/w.IDBlocks], uint64(j%w.IDBlocks))
			}
			if j == 0 {
				name = h
			} else {
				name = chain(name, h)
			}
			w.content, w.names = append(w.content, radix.Hash(h)), append(w.names, name)
		}
		w.from, w.prompt = append(w.from, uint64(len(w.content))), append(w.prompt, uint32(n))
	}
}

// generator serves a trace.
type generator struct {
	*Workload
	o       Options
	numbers []uint32   // of all blocks of all requests: equal for equal names, and dense
	caches  []*cache   // by worker
	holders [][]uint16 // by number of the block, in no order
	depth   []int      // by worker; scratch
	queue   []float64  // by worker: blocks to compute
	chance  uint64     // state of xorshift64
	holes   *holes     // or nil
}

func newGenerator(w *Workload, o Options) *generator {
	g := &generator{Workload: w, o: o, chance: 0x9e3779b97f4a7c15}
	g.numbers = make([]uint32, len(w.names))
	seen := make(map[uint64]uint32)
	for i, name := range w.names {
		n, ok := seen[name]
		if !ok {
			n = uint32(len(seen))
			seen[name] = n
		}
		g.numbers[i] = n
	}
	g.holders = make([][]uint16, len(seen))
	g.depth, g.queue = make([]int, o.Workers), make([]float64, o.Workers)
	for range o.Workers {
		g.caches = append(g.caches, newCache())
	}
	if o.Holes {
		g.holes = newHoles(o.Workers)
	}
	return g
}

// blocks returns the numbers of a request's blocks.
func (g *generator) blocks(req uint32) []uint32 { return g.numbers[g.from[req]:g.from[req+1]] }

// depths fills g.depth with how many leading blocks of a prompt each worker holds, and returns the most.
func (g *generator) depths(req uint32) (most int) {
	clear(g.depth)
	for i, n := range g.blocks(req)[:g.prompt[req]] {
		for _, w := range g.holders[n] {
			if g.depth[w] == i {
				g.depth[w], most = i+1, i+1
			}
		}
		if most == i {
			break
		}
	}
	return most
}

// serve routes the trace. A worker's queue runs down so that all are about 70 % busy.
func (g *generator) serve(trace []Request) {
	warm := int(float64(len(trace)) * warmShare)
	rate := 0.0
	if took := trace[len(trace)-1].Timestamp - trace[0].Timestamp; took > 0 {
		rate = float64(len(g.names)) * 0.6 / took / float64(g.o.Workers) / 0.7
	}
	last := 0.0
	for i, r := range trace {
		if i == warm {
			g.test(i)
		}
		req := uint32(i)
		for j := range g.queue {
			// The conversion forbids a fused multiply-add, which would round, and so route, otherwise.
			g.queue[j] = max(g.queue[j]-float64(rate*(r.Timestamp-last)), 0)
		}
		last = r.Timestamp
		g.depths(req)
		worker := g.route(req)
		g.queue[worker] += float64(int(g.prompt[req]) - g.depth[worker])
		g.Ops = append(g.Ops, Op{Kind: Query, Req: req, End: g.prompt[req]})
		g.serveOne(req, worker)
		if g.holes != nil {
			g.holes.after(g, req, worker)
		}
	}
}

// route picks the worker with the least queue and uncached blocks; the first of equals, from one drawn by chance.
func (g *generator) route(req uint32) int {
	g.chance ^= g.chance << 13
	g.chance ^= g.chance >> 7
	g.chance ^= g.chance << 17
	first := int(g.chance % uint64(g.o.Workers))
	if g.o.Random {
		return first
	}
	pick, best := 0, math.MaxFloat64
	for i := range g.o.Workers {
		j := (i + first) % g.o.Workers
		if c := float64(int(g.prompt[req])-g.depth[j]) + g.queue[j]; c < best {
			pick, best = j, c
		}
	}
	return pick
}

// serveOne evicts for a request and stores what the worker lacks of it: the prompt at once, decoded blocks one by one.
func (g *generator) serveOne(req uint32, worker int) {
	c, blocks, n := g.caches[worker], g.blocks(req), g.prompt[req]
	missing := 0
	for i, b := range slices.Backward(blocks) {
		if !c.has(b) {
			missing++
			continue
		}
		c.touch(b, req, uint32(i)) // so that it is not evicted for the rest
	}
	g.evict(worker, missing)
	g.storeMissing(worker, req, 0, n)
	for i := n; i < uint32(len(blocks)); i++ {
		g.storeMissing(worker, req, i, i+1)
	}
	for i, b := range slices.Backward(blocks) {
		g.hold(worker, b, req, uint32(i))
	}
}

// storeMissing publishes the blocks from start to end that the worker lacks.
func (g *generator) storeMissing(worker int, req, start, end uint32) {
	g.ranges(worker, req, start, end, false, func(from, to uint32) {
		g.Ops = append(g.Ops, Op{Store, uint16(worker), req, from, to})
	})
}

// ranges calls f for each longest range within start to end that the worker holds, or lacks.
func (g *generator) ranges(worker int, req, start, end uint32, held bool, f func(from, to uint32)) {
	blocks := g.blocks(req)
	for from := start; from < end; {
		to := from
		for to < end && g.caches[worker].has(blocks[to]) == held {
			to++
		}
		if to > from {
			f(from, to)
		}
		from = max(to, from+1)
	}
}

// evict makes room for n blocks.
func (g *generator) evict(worker, n int) {
	c := g.caches[worker]
	var gone []Op
	for _, e := range c.oldest(c.len() + n - g.o.Blocks) {
		g.release(worker, e.block)
		if o := len(gone) - 1; o >= 0 && gone[o].Req == e.req && gone[o].Start == e.pos+1 {
			gone[o].Start--
			continue
		}
		gone = append(gone, Op{Remove, uint16(worker), e.req, e.pos, e.pos + 1})
	}
	for _, o := range gone {
		g.publishRemoval(o)
	}
}

// publishRemoval appends a removal, block by block where the first one goes first.
func (g *generator) publishRemoval(o Op) {
	if !g.o.FrontFirst {
		g.Ops = append(g.Ops, o)
		return
	}
	for i := o.Start; i < o.End; i++ {
		g.Ops = append(g.Ops, Op{Remove, o.Worker, o.Req, i, i + 1})
	}
}

// hold makes a block the latest of a worker.
func (g *generator) hold(worker int, block, req, pos uint32) {
	if !g.caches[worker].has(block) {
		g.holders[block] = append(g.holders[block], uint16(worker))
	}
	g.caches[worker].touch(block, req, pos)
}

// release takes a block from a worker that holds it.
func (g *generator) release(worker int, block uint32) {
	g.caches[worker].drop(block)
	h := g.holders[block]
	for i := range h {
		if h[i] == uint16(worker) {
			h[i] = h[len(h)-1]
			g.holders[block] = h[:len(h)-1]
			return
		}
	}
}

// test notes the state before a request, and the right answers for look-ups around it.
func (g *generator) test(req int) {
	g.Warm = len(g.Ops)
	for _, c := range g.caches {
		g.Pairs += c.len()
	}
	for _, h := range g.holders {
		if len(h) > 0 {
			g.Distinct++
		}
	}
	for k := range around {
		for _, i := range []int{req - 1 - k, req + k} {
			if i < 0 || i >= g.Requests() {
				continue
			}
			t := Truth{Req: uint32(i), Depth: uint32(g.depths(uint32(i)))}
			for w, d := range g.depth {
				t.Sum += uint64(d) * uint64(2*w+1)
			}
			g.Tests = append(g.Tests, t)
		}
	}
}
