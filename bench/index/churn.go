package index

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/warmpath/warmpath/radix"
)

// Churn is a history that a workload file cannot say. Hosts of two data-parallel ranks each run engines of four kinds: three
// hash like SGLang (all alike, and without the LoRA adapter, so one name is two blocks), every fourth host's hashes are its own; half of
// the hosts spill what leaves their GPU to memory of the CPU, and half of those on to storage. Ranks lose blocks from the middle, load
// blocks back, drop all, and hosts restart, so that ids are given back and used again.
type Churn struct {
	*Workload
	o       ChurnOptions
	domains []uint8    // by request: 0 the base model, 1 an adapter
	numbers []uint32   // of all blocks of all requests, by domain and name: what a block really is
	names   [][]uint64 // by flavour: engine hashes of all blocks of all requests
	steps   []step
}

// ChurnOptions say how large it is.
type ChurnOptions struct {
	Ranks    int
	Blocks   int // of a rank's GPU; the memory of the CPU holds twice, storage four times as many
	IDBlocks int // as in Options
}

// step is one event of a rank.
type step struct {
	kind       stepKind
	front      bool // removals: from the first to the last
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
	stepLeave // the rank's worker is removed
	stepJoin  // a worker is added for it
)

const (
	domains       = 2
	ownFlavours   = 3   // ways to hash of engines that are not SGLang
	churnTiers    = 3   // GPU, CPU, storage
	churnHoles    = 0.2 // of the requests open a hole
	churnClears   = 50  // requests between clears of a rank, on average
	churnRestarts = 100 // requests between restarts of a host, on average
)

// flavour is how a rank's engine names blocks: 0 is SGLang's.
func flavour(rank int) int {
	host := rank / 2
	if host%4 == 3 {
		return 1 + host/4%ownFlavours
	}
	return 0
}

// tiersOf returns how many tiers a rank has.
func tiersOf(rank int) int {
	switch host := rank / 2; host % 4 {
	case 1:
		return 2
	case 2:
		return 3
	}
	return 1
}

// NewChurn serves a trace, routed by chance, for both domains.
func NewChurn(trace []Request, o ChurnOptions) (*Churn, error) {
	w, err := Generate(trace, Options{Workers: o.Ranks, Blocks: o.Blocks, IDBlocks: o.IDBlocks, Random: true})
	if err != nil {
		return nil, err
	}
	if o.Ranks%2 != 0 {
		return nil, errors.New("cannot divide an odd number of ranks into hosts of two: give an even one")
	}
	w.Ops, w.Tests = nil, nil // of another history
	c := &Churn{Workload: w, o: o, names: make([][]uint64, 1+ownFlavours)}
	type block struct {
		domain uint8
		name   uint64
	}
	seen := make(map[block]uint32)
	c.names[0] = w.names
	for req := range w.prompt {
		d := uint8(req % domains)
		c.domains = append(c.domains, d)
		for _, name := range w.Names(uint32(req)) {
			b := block{d, name}
			n, ok := seen[b]
			if !ok {
				n = uint32(len(seen))
				seen[b] = n
			}
			c.numbers = append(c.numbers, n)
			for f := 1; f <= ownFlavours; f++ {
				c.names[f] = append(c.names[f], mix(name^uint64(f)<<8^uint64(d)))
			}
		}
	}
	newEngines(c).serve()
	return c, nil
}

// blocks returns the numbers of a request's blocks.
func (c *Churn) blocks(req uint32) []uint32 { return c.numbers[c.from[req]:c.from[req+1]] }

// called returns a rank's names of a request's blocks.
func (c *Churn) called(rank int, req uint32) []uint64 {
	return c.names[flavour(rank)][c.from[req]:c.from[req+1]]
}

// engines simulates the ranks.
type engines struct {
	*Churn
	chance *rand.Rand
	caches [][]*cache // by rank and tier
	served [][]uint32 // by rank: the last requests
}

func newEngines(c *Churn) *engines {
	e := &engines{Churn: c, chance: rand.New(rand.NewPCG(17, 17))}
	e.served = make([][]uint32, c.o.Ranks)
	for rank := range c.o.Ranks {
		e.caches = append(e.caches, nil)
		e.forget(rank)
	}
	return e
}

// forget empties a rank.
func (e *engines) forget(rank int) {
	e.caches[rank] = nil
	for range tiersOf(rank) {
		e.caches[rank] = append(e.caches[rank], newCache())
	}
	e.served[rank] = nil
}

func (e *engines) serve() {
	for rank := range e.o.Ranks {
		e.steps = append(e.steps, step{kind: stepJoin, rank: uint16(rank)})
	}
	for req := range uint32(e.Requests()) {
		rank := e.chance.IntN(e.o.Ranks)
		e.serveOne(rank, req)
		if e.chance.Float64() < churnHoles {
			e.open(rank)
		}
		if e.chance.IntN(churnClears) == 0 {
			rank := e.chance.IntN(e.o.Ranks)
			e.forget(rank)
			e.steps = append(e.steps, step{kind: stepClear, rank: uint16(rank)})
		}
		if e.chance.IntN(churnRestarts) == 0 {
			e.restart(e.chance.IntN(e.o.Ranks / 2))
		}
	}
}

// restart takes both ranks of a host away before either comes back, so that they may get each other's id.
func (e *engines) restart(host int) {
	for _, kind := range []stepKind{stepLeave, stepJoin} {
		for rank := 2 * host; rank < 2*host+2; rank++ {
			e.forget(rank)
			e.steps = append(e.steps, step{kind: kind, rank: uint16(rank)})
		}
	}
}

// serveOne computes, or loads from a slower tier, what the GPU lacks of a request.
func (e *engines) serveOne(rank int, req uint32) {
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
	e.served[rank] = latest(e.served[rank], req)
}

// store publishes the blocks from start to end that a tier lacks and enters them. Blocks behind one that is in no tier cannot be published:
// they are left out.
func (e *engines) store(rank int, t radix.Tier, req, start, end uint32) {
	blocks, c := e.blocks(req), e.caches[rank][t]
	for from := start; from < end; from++ {
		to := from
		for to < end && !c.has(blocks[to]) {
			to++
		}
		if to == from || from > 0 && !e.anywhere(rank, blocks[from-1]) {
			continue
		}
		e.steps = append(e.steps, step{kind: stepStore, tier: t, rank: uint16(rank), req: req, start: from, end: to})
		for i := to; i > from; i-- {
			c.touch(blocks[i-1], req, i-1)
		}
		from = to
	}
}

// anywhere reports whether a rank holds a block in any tier.
func (e *engines) anywhere(rank int, block uint32) bool {
	for _, c := range e.caches[rank] {
		if c.has(block) {
			return true
		}
	}
	return false
}

// evict makes room for n blocks in a tier. They spill to the next one before they go.
func (e *engines) evict(rank int, t radix.Tier, n int) {
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

// remove publishes blocks that leave a tier where they are: SGLang's from the front to the back, as it removes the pages of a node.
func (e *engines) remove(rank int, t radix.Tier, req, start, end uint32) {
	for i := start; i < end; i++ {
		e.caches[rank][t].drop(e.blocks(req)[i])
	}
	e.steps = append(e.steps, step{
		kind: stepRemove, front: flavour(rank) == 0, tier: t, rank: uint16(rank), req: req, start: start, end: end,
	})
}

// open takes blocks out of the middle of a request that the rank served lately, from a tier of its own.
func (e *engines) open(rank int) {
	req := e.served[rank][e.chance.IntN(len(e.served[rank]))]
	blocks := e.blocks(req)
	t := radix.Tier(e.chance.IntN(len(e.caches[rank])))
	start := 1 + e.chance.Uint32N(uint32(len(blocks)-1))
	end := min(start+1+e.chance.Uint32N(holeBlocks), uint32(len(blocks)))
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

// describe counts what the history has, for the result.
func (c *Churn) describe() string {
	var kinds [stepJoin + 1]int
	for _, s := range c.steps {
		kinds[s.kind]++
	}
	return fmt.Sprintf("%s stores, %s removals, %d clears, %d restarts of ranks",
		count(kinds[stepStore]), count(kinds[stepRemove]), kinds[stepClear], kinds[stepLeave])
}
