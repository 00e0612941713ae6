package index

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/warmpath/warmpath/bench/trace"
	"github.com/warmpath/warmpath/radix"
)

// Churn is a history that a workload file cannot express. Hosts of two data-parallel ranks run
// engines of four kinds. Three kinds hash like SGLang: without the LoRA adapter, so one engine
// hash is two blocks. Every fourth host has hashes of its own. Half of the hosts spill evicted
// blocks to CPU memory, half of these on to storage. Ranks lose blocks within prompts, load
// blocks back and drop all, and hosts restart, so that ids are reused.
type Churn struct {
	*Workload
	o            ChurnOptions
	domains      []uint8    // by request: 0 the base model, 1 an adapter
	blockIDs     []uint32   // of all blocks of all requests: one for each domain and engine hash
	engineHashes [][]uint64 // by hash kind: of all blocks of all requests
	steps        []step
}

// ChurnOptions are the sizes of a [Churn].
type ChurnOptions struct {
	Ranks    int
	Blocks   int // of a rank's GPU; CPU memory has twice, storage four times as many
	IDBlocks int // as in Options
}

// step is one event of a rank.
type step struct {
	kind       stepKind
	front      bool // a removal from the first block to the last
	tier       radix.Tier
	rank       uint16
	req        uint32
	start, end uint32
}

type stepKind uint8

const (
	stepStore stepKind = iota
	stepRemove
	stepClear
	stepRemoveWorker // before a restart
	stepAddWorker    // after a restart, and at the start
)

const (
	domains       = 2
	foreignKinds  = 3   // hash kinds of engines other than SGLang
	churnTiers    = 3   // GPU, CPU, storage
	churnHoles    = 0.2 // of the requests open a hole
	churnClears   = 50  // requests between clears of a rank, on average
	churnRestarts = 100 // requests between restarts of a host, on average
)

// hashKind returns the hash function of a rank's engine: 0 is SGLang's.
func hashKind(rank int) int {
	host := rank / 2
	if host%4 == 3 {
		return 1 + host/4%foreignKinds
	}
	return 0
}

// tiersOf returns the number of tiers of a rank.
func tiersOf(rank int) int {
	switch host := rank / 2; host % 4 {
	case 1:
		return 2
	case 2:
		return 3
	}
	return 1
}

// NewChurn serves a trace in both domains, routed at random.
func NewChurn(trace []Request, o ChurnOptions) (*Churn, error) {
	w, err := Generate(trace, Options{Workers: o.Ranks, Blocks: o.Blocks, IDBlocks: o.IDBlocks, Random: true})
	if err != nil {
		return nil, err
	}
	if o.Ranks%2 != 0 {
		return nil, errors.New("cannot divide an odd number of ranks into hosts of two: give an even one")
	}
	w.Ops, w.Tests = nil, nil // of another history
	c := &Churn{Workload: w, o: o, engineHashes: make([][]uint64, 1+foreignKinds)}
	type block struct {
		domain uint8
		name   uint64
	}
	seen := make(map[block]uint32)
	c.engineHashes[0] = w.engineHashes
	for req := range w.prompt {
		d := uint8(req % domains)
		c.domains = append(c.domains, d)
		for _, name := range w.EngineHashes(uint32(req)) {
			b := block{d, name}
			n, ok := seen[b]
			if !ok {
				n = uint32(len(seen))
				seen[b] = n
			}
			c.blockIDs = append(c.blockIDs, n)
			for f := 1; f <= foreignKinds; f++ {
				c.engineHashes[f] = append(c.engineHashes[f], splitmix(name^uint64(f)<<8^uint64(d)))
			}
		}
	}
	newRankSim(c).serve()
	return c, nil
}

// blocks returns the ids of a request's blocks.
func (c *Churn) blocks(req uint32) []uint32 { return c.blockIDs[c.first[req]:c.first[req+1]] }

// engineHashesOf returns a rank's engine hashes of a request's blocks.
func (c *Churn) engineHashesOf(rank int, req uint32) []uint64 {
	return c.engineHashes[hashKind(rank)][c.first[req]:c.first[req+1]]
}

// rankSim simulates the ranks.
type rankSim struct {
	*Churn
	random *rand.Rand
	caches [][]*cache // by rank and tier
	served [][]uint32 // by rank: its last requests
}

func newRankSim(c *Churn) *rankSim {
	e := &rankSim{Churn: c, random: rand.New(rand.NewPCG(17, 17))}
	e.served = make([][]uint32, c.o.Ranks)
	for rank := range c.o.Ranks {
		e.caches = append(e.caches, nil)
		e.reset(rank)
	}
	return e
}

// reset empties a rank.
func (e *rankSim) reset(rank int) {
	e.caches[rank] = nil
	for range tiersOf(rank) {
		e.caches[rank] = append(e.caches[rank], newCache())
	}
	e.served[rank] = nil
}

func (e *rankSim) serve() {
	for rank := range e.o.Ranks {
		e.steps = append(e.steps, step{kind: stepAddWorker, rank: uint16(rank)})
	}
	for req := range uint32(e.Requests()) {
		rank := e.random.IntN(e.o.Ranks)
		e.serveOne(rank, req)
		if e.random.Float64() < churnHoles {
			e.open(rank)
		}
		if e.random.IntN(churnClears) == 0 {
			rank := e.random.IntN(e.o.Ranks)
			e.reset(rank)
			e.steps = append(e.steps, step{kind: stepClear, rank: uint16(rank)})
		}
		if e.random.IntN(churnRestarts) == 0 {
			e.restart(e.random.IntN(e.o.Ranks / 2))
		}
	}
}

// restart removes both ranks of a host before it adds them again, so that they may swap ids.
func (e *rankSim) restart(host int) {
	for _, kind := range []stepKind{stepRemoveWorker, stepAddWorker} {
		for rank := 2 * host; rank < 2*host+2; rank++ {
			e.reset(rank)
			e.steps = append(e.steps, step{kind: kind, rank: uint16(rank)})
		}
	}
}

// serveOne computes a request's blocks that the GPU lacks, or loads them from a slower tier.
func (e *rankSim) serveOne(rank int, req uint32) {
	blocks, gpu := e.blocks(req), e.caches[rank][0]
	missing := 0
	for i, n := range slices.Backward(blocks) {
		if gpu.has(n) {
			gpu.touch(n, req, uint32(i))
		} else {
			missing++
		}
	}
	e.evict(rank, radix.TierGPU, missing)
	e.store(rank, radix.TierGPU, req, 0, uint32(len(blocks)))
	for i, n := range slices.Backward(blocks) {
		gpu.touch(n, req, uint32(i))
	}
	e.served[rank] = appendRecent(e.served[rank], req)
}

// store publishes and adds the blocks from start to end that a tier lacks. It leaves out blocks
// whose parent is in no tier, which an engine cannot publish.
func (e *rankSim) store(rank int, t radix.Tier, req, start, end uint32) {
	blocks, c := e.blocks(req), e.caches[rank][t]
	for from := start; from < end; from++ {
		to := from
		for to < end && !c.has(blocks[to]) {
			to++
		}
		if to == from || from > 0 && !e.held(rank, blocks[from-1]) {
			continue
		}
		e.steps = append(e.steps, step{kind: stepStore, tier: t, rank: uint16(rank), req: req, start: from, end: to})
		for i := to; i > from; i-- {
			c.touch(blocks[i-1], req, i-1)
		}
		from = to
	}
}

// held reports whether a rank holds a block in any tier.
func (e *rankSim) held(rank int, block uint32) bool {
	for _, c := range e.caches[rank] {
		if c.has(block) {
			return true
		}
	}
	return false
}

// evict makes room for n blocks in a tier. Evicted blocks spill to the next tier first.
func (e *rankSim) evict(rank int, t radix.Tier, n int) {
	c := e.caches[rank][t]
	var gone []step
	for _, x := range c.oldest(c.len() + n - e.o.Blocks<<t) {
		if o := len(gone) - 1; o >= 0 && gone[o].req == x.req && gone[o].start == x.pos+1 {
			gone[o].start--
		} else {
			gone = append(gone, step{req: x.req, start: x.pos, end: x.pos + 1})
		}
	}
	for _, s := range gone {
		if next := t + 1; int(next) < len(e.caches[rank]) {
			e.evict(rank, next, int(s.end-s.start))
			e.store(rank, next, s.req, s.start, s.end)
		}
		e.remove(rank, t, s.req, s.start, s.end)
	}
}

// remove removes blocks from a tier: SGLang's from the first to the last, as it removes the
// pages of a node.
func (e *rankSim) remove(rank int, t radix.Tier, req, start, end uint32) {
	for i := start; i < end; i++ {
		e.caches[rank][t].drop(e.blocks(req)[i])
	}
	e.steps = append(e.steps, step{
		kind: stepRemove, front: hashKind(rank) == 0, tier: t, rank: uint16(rank), req: req, start: start, end: end,
	})
}

// open removes blocks within a recent request of the rank from one tier.
func (e *rankSim) open(rank int) {
	req := e.served[rank][e.random.IntN(len(e.served[rank]))]
	blocks := e.blocks(req)
	t := radix.Tier(e.random.IntN(len(e.caches[rank])))
	start := 1 + e.random.Uint32N(uint32(len(blocks)-1))
	end := min(start+1+e.random.Uint32N(holeBlocks), uint32(len(blocks)))
	for from := start; from < end; from++ {
		to := from
		for to < end && e.caches[rank][t].has(blocks[to]) {
			to++
		}
		if to > from {
			e.remove(rank, t, req, from, to)
			from = to
		}
	}
}

// describe counts the steps by kind.
func (c *Churn) describe() string {
	var kinds [stepAddWorker + 1]int
	for _, s := range c.steps {
		kinds[s.kind]++
	}
	return fmt.Sprintf("%s stores, %s removals, %d clears, %d restarts of ranks",
		trace.Grouped(kinds[stepStore]), trace.Grouped(kinds[stepRemove]), kinds[stepClear], kinds[stepRemoveWorker])
}
