package radix

import (
	"encoding/binary"
	"errors"
	"slices"
)

// naive is the obvious index: for each worker, the path of every engine hash it holds. A path is the domain and all block
// hashes from the first on, so holding a block is holding its path.
type naive struct {
	workers map[Worker]map[uint64]*naiveEntry
	domains int
}

type naiveEntry struct {
	path string
	n    [tiers]int
}

func newNaive() *naive { return &naive{workers: make(map[Worker]map[uint64]*naiveEntry)} }

func naivePath(d Domain) string { return string(binary.LittleEndian.AppendUint32(nil, uint32(d))) }

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
		path = parent.path
	} else if int(s.Domain) >= x.domains {
		return ErrUnknownDomain
	}
	for i, key := range s.Engine {
		path = naiveStep(path, s.Blocks[i])
		e := held[key]
		if e == nil || e.path != path {
			e = &naiveEntry{path: path}
			held[key] = e
		}
		e.n[s.Tier]++
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
			tier = Tier(slices.IndexFunc(e.n[:], func(n int) bool { return n > 0 }))
		}
		if tier >= tiers || e.n[tier] == 0 {
			unknown++
			continue
		}
		e.n[tier]--
		if e.n == [tiers]int{} {
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
			anyTier[e.path] = true
			gpu[e.path] = gpu[e.path] || e.n[TierGPU] > 0
		}
		o := Overlap{Worker: w}
		path := naivePath(d)
		for i, h := range chain {
			path = naiveStep(path, h)
			if !anyTier[path] {
				break
			}
			o.Blocks = i + 1
			if gpu[path] && o.GPU == i {
				o.GPU = i + 1
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
			all[e.path] = true
		}
	}
	return len(all)
}

func sortOverlaps(o []Overlap) {
	slices.SortFunc(o, func(a, b Overlap) int { return int(a.Worker) - int(b.Worker) })
}

// sentinel returns the error of this package that err wraps.
func sentinel(err error) error {
	for _, s := range []error{ErrUnknownParent, ErrUnknownWorker, ErrUnknownDomain, ErrUnknownTier, ErrMismatch} {
		if errors.Is(err, s) {
			return s
		}
	}
	return err
}
