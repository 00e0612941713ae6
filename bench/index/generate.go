package index

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/warmpath/warmpath/bench/lru"
	"github.com/warmpath/warmpath/radix"
)

// Options configure [Generate].
type Options struct {
	Workers  int
	Blocks   int  // a worker's cache
	IDBlocks int  // blocks of an id of the trace: 32 for 16 tokens each
	Random   bool // route at random; else to the least queue and cost
	Holes    bool // lose blocks within prompts, see [disturber]
}

// warmShare of the requests are served before the tested look-ups; the rest are writes beside
// look-ups.
const warmShare = 0.7

// testRequests is the number of requests before and after that moment that are looked up.
const testRequests = 1500

// Generate serves a trace by simulated workers, each an LRU that evicts the tail of a prompt
// first, and returns their events. Without Holes it equals the output of the generator of
// the peers' harness, byte for byte, up to 256 workers.
func Generate(trace []Request, o Options) (*Workload, error) {
	switch {
	case len(trace) == 0:
		return nil, errors.New("cannot generate a workload: the trace is empty")
	case o.Workers < 1 || o.Workers > math.MaxUint16:
		return nil, fmt.Errorf("cannot generate a workload for %d workers: give 1 to %d",
			o.Workers, math.MaxUint16)
	case o.IDBlocks < 1 || idTokens%o.IDBlocks != 0:
		return nil, fmt.Errorf("cannot divide an id of %d tokens into %d blocks: give a divisor of %d", idTokens, o.IDBlocks, idTokens)
	}
	w := &Workload{Workers: o.Workers, IDBlocks: o.IDBlocks}
	w.addRequests(trace)
	g := newGenerator(w, o)
	for r := range w.prompt {
		// The worker would evict the request that it serves.
		if n := len(w.Content(uint32(r))); n > o.Blocks {
			return nil, fmt.Errorf("cannot serve request %d of %d blocks from a cache of %d: give workers more blocks", r, n, o.Blocks)
		}
	}
	g.serve(trace)
	return w, nil
}

// addRequests makes the whole blocks of all requests.
func (w *Workload) addRequests(trace []Request) {
	w.first = append(w.first, 0)
	tokens := idTokens / w.IDBlocks
	for i, r := range trace {
		n := min(len(r.IDs)*w.IDBlocks, max(r.Input/tokens, 1))
		name := uint64(0)
		for j := range n + r.Output/tokens {
			h := decodeHash(uint64(i), uint64(j-n))
			if j < n {
				h = promptHash(r.IDs[j/w.IDBlocks], uint64(j%w.IDBlocks))
			}
			if j == 0 {
				name = h
			} else {
				name = chainHash(name, h)
			}
			w.content = append(w.content, radix.Hash(h))
			w.engineHashes = append(w.engineHashes, name)
		}
		w.first, w.prompt = append(w.first, uint64(len(w.content))), append(w.prompt, uint32(n))
	}
}

// use is the request and the position of a block's first use.
type use struct{ req, pos uint32 }

// held is the blocks of one worker, by their id.
type held = *lru.Cache[uint32, use]

// generator serves a trace.
type generator struct {
	*Workload
	o         Options
	blockIDs  []uint32   // of all blocks of all requests: dense, equal for equal engine hashes
	caches    []held     // by worker
	holders   [][]uint16 // by block id, in no order
	overlap   []int      // by worker; scratch
	queue     []float64  // by worker: blocks to compute
	random    uint64     // state of xorshift64
	disturber *disturber // or nil
}

func newGenerator(w *Workload, o Options) *generator {
	g := &generator{Workload: w, o: o, random: 0x9e3779b97f4a7c15}
	g.blockIDs = make([]uint32, len(w.engineHashes))
	seen := make(map[uint64]uint32)
	for i, name := range w.engineHashes {
		n, ok := seen[name]
		if !ok {
			n = uint32(len(seen))
			seen[name] = n
		}
		g.blockIDs[i] = n
	}
	g.holders = make([][]uint16, len(seen))
	g.overlap, g.queue = make([]int, o.Workers), make([]float64, o.Workers)
	for range o.Workers {
		g.caches = append(g.caches, lru.New[uint32, use]())
	}
	if o.Holes {
		g.disturber = newDisturber(o.Workers)
	}
	return g
}

// blocks returns the ids of a request's blocks.
func (g *generator) blocks(req uint32) []uint32 { return g.blockIDs[g.first[req]:g.first[req+1]] }

// overlaps fills g.overlap with each worker's overlap with a prompt, and returns the largest.
func (g *generator) overlaps(req uint32) (most int) {
	clear(g.overlap)
	for i, n := range g.blocks(req)[:g.prompt[req]] {
		for _, w := range g.holders[n] {
			if g.overlap[w] == i {
				g.overlap[w], most = i+1, i+1
			}
		}
		if most == i {
			break
		}
	}
	return most
}

// serve routes the trace. Queues shrink at a rate that keeps workers about 70 % busy.
func (g *generator) serve(trace []Request) {
	warm := int(float64(len(trace)) * warmShare)
	rate := 0.0
	millis := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	if took := millis(trace[len(trace)-1].At - trace[0].At); took > 0 {
		rate = float64(len(g.engineHashes)) * 0.6 / took / float64(g.o.Workers) / 0.7
	}
	last := 0.0
	for i, r := range trace {
		if i == warm {
			g.test(i)
		}
		req, at := uint32(i), millis(r.At)
		for j := range g.queue {
			// The conversion forbids a fused multiply-add, which rounds differently.
			g.queue[j] = max(g.queue[j]-float64(rate*(at-last)), 0)
		}
		last = at
		g.overlaps(req)
		worker := g.route(req)
		g.queue[worker] += float64(int(g.prompt[req]) - g.overlap[worker])
		g.Ops = append(g.Ops, Op{Kind: Query, Req: req, End: g.prompt[req]})
		g.serveOne(req, worker)
		if g.disturber != nil {
			g.disturber.after(g, req, worker)
		}
	}
}

// route picks the worker with the least queue and uncached blocks. Ties go to the first from a
// random worker on.
func (g *generator) route(req uint32) int {
	g.random ^= g.random << 13
	g.random ^= g.random >> 7
	g.random ^= g.random << 17
	first := int(g.random % uint64(g.o.Workers))
	if g.o.Random {
		return first
	}
	pick, best := 0, math.MaxFloat64
	for i := range g.o.Workers {
		j := (i + first) % g.o.Workers
		if c := float64(int(g.prompt[req])-g.overlap[j]) + g.queue[j]; c < best {
			pick, best = j, c
		}
	}
	return pick
}

// serveOne evicts for a request and stores its missing blocks: the prompt at once, decoded
// blocks one by one.
func (g *generator) serveOne(req uint32, worker int) {
	c, blocks, n := g.caches[worker], g.blocks(req), g.prompt[req]
	missing := 0
	for i, b := range slices.Backward(blocks) {
		if !c.Has(b) {
			missing++
			continue
		}
		c.Touch(b, use{req, uint32(i)}) // so that it is not evicted for the others
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

// ranges calls f for each longest range within start to end that the worker holds, or does not
// hold.
func (g *generator) ranges(worker int, req, start, end uint32, held bool, f func(from, to uint32)) {
	blocks := g.blocks(req)
	for from := start; from < end; {
		to := from
		for to < end && g.caches[worker].Has(blocks[to]) == held {
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
	for _, e := range c.Oldest(c.Len() + n - g.o.Blocks) {
		g.release(worker, e.Key)
		if o := len(gone) - 1; o >= 0 && gone[o].Req == e.Value.req && gone[o].Start == e.Value.pos+1 {
			gone[o].Start--
			continue
		}
		gone = append(gone, Op{Remove, uint16(worker), e.Value.req, e.Value.pos, e.Value.pos + 1})
	}
	g.Ops = append(g.Ops, gone...)
}

// hold makes a block the most recently used of a worker.
func (g *generator) hold(worker int, block, req, pos uint32) {
	if !g.caches[worker].Has(block) {
		g.holders[block] = append(g.holders[block], uint16(worker))
	}
	g.caches[worker].Touch(block, use{req, pos})
}

// release takes a block from a worker that holds it.
func (g *generator) release(worker int, block uint32) {
	g.caches[worker].Drop(block)
	h := g.holders[block]
	for i := range h {
		if h[i] == uint16(worker) {
			h[i] = h[len(h)-1]
			g.holders[block] = h[:len(h)-1]
			return
		}
	}
}

// test records the state before a request, and the right answers for the look-ups around it.
func (g *generator) test(req int) {
	g.Warm = len(g.Ops)
	for _, c := range g.caches {
		g.Pairs += c.Len()
	}
	for _, h := range g.holders {
		if len(h) > 0 {
			g.Distinct++
		}
	}
	for k := range testRequests {
		for _, i := range []int{req - 1 - k, req + k} {
			if i < 0 || i >= g.Requests() {
				continue
			}
			t := Answer{Req: uint32(i), Depth: uint32(g.overlaps(uint32(i)))}
			for w, d := range g.overlap {
				t.Sum += uint64(d) * uint64(2*w+1)
			}
			g.Tests = append(g.Tests, t)
		}
	}
}
