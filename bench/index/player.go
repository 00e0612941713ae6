package index

import (
	"slices"
	"sync"

	"github.com/warmpath/warmpath/radix"
)

// Player plays a workload on an index of its own.
type Player struct {
	Index    *radix.Index
	Domain   radix.Domain
	Workload *Workload
}

// NewPlayer returns an empty index with the workload's workers.
func NewPlayer(w *Workload) *Player {
	p := &Player{Index: radix.New(radix.Config{Seed: 1}), Workload: w}
	p.Domain = p.Index.Domain(radix.DomainKey{Model: "workload", BlockSize: idTokens / max(w.IDBlocks, 1)})
	for range w.Workers {
		p.Index.AddWorker() // ids are dense, as in the workload
	}
	return p
}

// Apply makes changes in order and returns the number that the index refused; it should refuse
// none. Several calls may run at once for different workers. As in the peers' harness,
// reversing a removal is a part of it.
func (p *Player) Apply(ops []Op) (refused int) {
	var gone []uint64
	for i := range ops {
		o := &ops[i]
		switch o.Kind {
		case Store:
			names := p.Workload.EngineHashes(o.Req)
			s := radix.Store{
				Worker: radix.Worker(o.Worker), Domain: p.Domain,
				Engine: names[o.Start:o.End], Blocks: p.Workload.Content(o.Req)[o.Start:o.End],
			}
			if o.Start > 0 {
				s.HasParent, s.Parent = true, names[o.Start-1]
			}
			if p.Index.Store(s) != nil {
				refused++
			}
		case Remove:
			gone = append(gone[:0], p.Workload.EngineHashes(o.Req)[o.Start:o.End]...)
			slices.Reverse(gone)
			if p.Index.Remove(radix.Worker(o.Worker), radix.TierGPU, gone) > 0 {
				refused++
			}
		case Clear:
			p.Index.Clear(radix.Worker(o.Worker))
		default: // look-ups are measured elsewhere
		}
	}
	return refused
}

// ApplyParts runs Apply on all parts at once and returns the number of refused changes.
func (p *Player) ApplyParts(parts [][]Op) (refused int) {
	counts := make([]int, len(parts))
	var all sync.WaitGroup
	for i, part := range parts {
		all.Go(func() { counts[i] = p.Apply(part) })
	}
	all.Wait()
	for _, n := range counts {
		refused += n
	}
	return refused
}

// Match looks up the prompt of a request.
func (p *Player) Match(dst []radix.Overlap, req uint32) []radix.Overlap {
	return p.Index.Match(dst, p.Domain, p.Workload.Prompt(req))
}

// Wrong returns the number of the workload's tests with a wrong answer. It is valid after the
// warm ops only.
func (p *Player) Wrong() (wrong int) {
	var buf []radix.Overlap
	for _, t := range p.Workload.Tests {
		sum, most := uint64(0), uint64(0)
		buf = p.Match(buf[:0], t.Req)
		for _, o := range buf {
			sum += uint64(o.Blocks) * uint64(2*int(o.Worker)+1)
			most = max(most, uint64(o.Blocks))
		}
		if sum != t.Sum || most != uint64(t.Depth) {
			wrong++
		}
	}
	return wrong
}
