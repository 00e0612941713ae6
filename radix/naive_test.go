package radix

import (
	"encoding/binary"
	"slices"
)

// naive is the obvious index: for each worker, the path of every engine hash it holds. A path is the domain and all block
// hashes from the first on, so holding a block is holding its path.
type naive struct {
	workers map[Worker]map[uint64]*naiveEntry
	domains int
}

// naiveEntry is an engine hash: its copies at a path in each domain, and the removals of each tier. A removal may have hit any
// of the copies, so a path is credited only with those that all removals together would leave.
type naiveEntry struct {
	places  map[Domain]*naivePlace
	removed [tiers]int
}

type naivePlace struct {
	path string
	n    [tiers]int
}

func (e *naiveEntry) total(t Tier) int {
	n := -e.removed[t]
	for _, p := range e.places {
		n += p.n[t]
	}
	return n
}

// tidy forgets tiers that may be empty and places without copies; it reports whether nothing is left.
func (e *naiveEntry) tidy() bool {
	for t := range Tier(tiers) {
		if e.total(t) > 0 {
			continue
		}
		e.removed[t] = 0
		for _, p := range e.places {
			p.n[t] = 0
		}
	}
	for d, p := range e.places {
		if p.n == [tiers]int{} {
			delete(e.places, d)
		}
	}
	if len(e.places) == 1 { // so it is known which copies were removed
		for _, p := range e.places {
			for t := range e.removed {
				p.n[t] -= e.removed[t]
			}
		}
		e.removed = [tiers]int{}
	}
	return len(e.places) == 0
}

// parent returns the path of the place that a child in domain d goes behind.
func (e *naiveEntry) parent(d Domain) (path string, ok bool) {
	if p := e.places[d]; p != nil {
		return p.path, true
	}
	if len(e.places) == 1 {
		for _, p := range e.places {
			return p.path, true
		}
	}
	return "", false
}

// credited lists the paths that surely have a copy in the tier.
func (e *naiveEntry) credited(t Tier) (paths []string) {
	for _, p := range e.places {
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
			e = &naiveEntry{places: make(map[Domain]*naivePlace)}
			held[key] = e
		}
		d := naiveDomain(path)
		p := e.places[d]
		if p == nil || p.path != path {
			p = &naivePlace{path: path}
			e.places[d] = p
			for t, n := range e.removed {
				if n > 0 && e.total(Tier(t)) <= 0 {
					e.removed[t] = 0
					for _, p := range e.places {
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

// paths returns how many distinct blocks the workers hold.
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
