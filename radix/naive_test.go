package radix

import (
	"encoding/binary"
	"slices"
)

// naive is the reference index: for each worker, the path of every engine hash. A path is the
// domain and all block hashes from the first on, so holding a block is holding its path.
type naive struct {
	workers map[Worker]map[uint64]*naiveEntry
	domains int
}

// naiveEntry is an engine hash: its copies at a path in each domain, and the removals of each
// tier. A removal may have hit any copy, so a path is credited only with the copies that all
// removals together would leave.
type naiveEntry struct {
	blocks  map[Domain]*naiveBlock
	removed [tiers]int
}

type naiveBlock struct {
	path string
	n    [tiers]int
}

func (e *naiveEntry) total(t Tier) int {
	n := -e.removed[t]
	for _, p := range e.blocks {
		n += p.n[t]
	}
	return n
}

// tidy forgets tiers that may be empty and blocks without copies; it reports whether nothing is
// left.
func (e *naiveEntry) tidy() bool {
	for t := range Tier(tiers) {
		if e.total(t) > 0 {
			continue
		}
		e.removed[t] = 0
		for _, p := range e.blocks {
			p.n[t] = 0
		}
	}
	for d, p := range e.blocks {
		if p.n == [tiers]int{} {
			delete(e.blocks, d)
		}
	}
	if len(e.blocks) == 1 { // so the removed copies are known
		for _, p := range e.blocks {
			for t := range e.removed {
				p.n[t] -= e.removed[t]
			}
		}
		e.removed = [tiers]int{}
	}
	return len(e.blocks) == 0
}

// parent returns the path of the block before a child in domain d.
func (e *naiveEntry) parent(d Domain) (path string, ok bool) {
	if p := e.blocks[d]; p != nil {
		return p.path, true
	}
	if len(e.blocks) == 1 {
		for _, p := range e.blocks {
			return p.path, true
		}
	}
	return "", false
}

// credited lists the paths that surely have a copy in the tier.
func (e *naiveEntry) credited(t Tier) (paths []string) {
	for _, p := range e.blocks {
		if p.n[t] > e.removed[t] {
			paths = append(paths, p.path)
		}
	}
	return paths
}

func newNaive() *naive { return &naive{workers: make(map[Worker]map[uint64]*naiveEntry)} }

func naivePath(d Domain) string { return string(binary.LittleEndian.AppendUint32(nil, uint32(d))) }

func naiveDomain(path string) Domain { return Domain(binary.LittleEndian.Uint32([]byte(path))) }

func naiveStep(path string, h Hash) string {
	return path + string(binary.LittleEndian.AppendUint64(nil, uint64(h)))
}

func (x *naive) store(s Store) error {
	held, ok := x.workers[s.Worker]
	if len(s.Engine) != len(s.Blocks) {
		return ErrMismatch
	}
	if s.Tier >= tiers {
		return ErrUnknownTier
	}
	if !ok {
		return ErrUnknownWorker
	}
	path := naivePath(s.Domain)
	if s.HasParent {
		parent := held[s.Parent]
		if parent == nil {
			return ErrUnknownParent
		}
		if path, ok = parent.parent(s.Domain); !ok {
			return ErrUnknownParent
		}
	} else if int(s.Domain) >= x.domains {
		return ErrUnknownDomain
	}
	for i, key := range s.Engine {
		path = naiveStep(path, s.Blocks[i])
		e := held[key]
		if e == nil {
			e = &naiveEntry{blocks: make(map[Domain]*naiveBlock)}
			held[key] = e
		}
		d := naiveDomain(path)
		p := e.blocks[d]
		if p == nil || p.path != path {
			p = &naiveBlock{path: path}
			e.blocks[d] = p
			for t, n := range e.removed {
				if n > 0 && e.total(Tier(t)) <= 0 {
					e.removed[t] = 0
					for _, p := range e.blocks {
						p.n[t] = 0
					}
				}
			}
		}
		p.n[s.Tier]++
		e.tidy()
	}
	return nil
}

func (x *naive) remove(w Worker, t Tier, engine []uint64) (unknown int) {
	held := x.workers[w]
	for _, key := range engine {
		e := held[key]
		if e == nil {
			unknown++
			continue
		}
		tier := t
		if t == TierUnknown {
			for tier = 0; tier < tiers && e.total(tier) == 0; tier++ {
			}
		}
		if tier >= tiers || e.total(tier) == 0 {
			unknown++
			continue
		}
		e.removed[tier]++
		if e.tidy() {
			delete(held, key)
		}
	}
	return unknown
}

// match returns the overlaps by worker.
func (x *naive) match(d Domain, chain []Hash) []Overlap {
	var out []Overlap
	for w, held := range x.workers {
		anyTier, gpu := map[string]bool{}, map[string]bool{}
		for _, e := range held {
			for t := range Tier(tiers) {
				for _, path := range e.credited(t) {
					anyTier[path] = true
					gpu[path] = gpu[path] || t == TierGPU
				}
			}
		}
		o := Overlap{Worker: w}
		path := naivePath(d)
		for i, h := range chain {
			path = naiveStep(path, h)
			if !anyTier[path] {
				break
			}
			o.Blocks = int32(i + 1)
			if gpu[path] && o.GPU == int32(i) {
				o.GPU = int32(i + 1)
			}
		}
		if o.Blocks > 0 {
			out = append(out, o)
		}
	}
	sortOverlaps(out)
	return out
}

func (x *naive) blocks(w Worker) int { return len(x.workers[w]) }

// paths returns the number of distinct blocks held.
func (x *naive) paths() int {
	all := map[string]bool{}
	for _, held := range x.workers {
		for _, e := range held {
			for t := range Tier(tiers) {
				for _, path := range e.credited(t) {
					all[path] = true
				}
			}
		}
	}
	return len(all)
}

func sortOverlaps(o []Overlap) {
	slices.SortFunc(o, func(a, b Overlap) int { return int(a.Worker) - int(b.Worker) })
}
