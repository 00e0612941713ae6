package radix

import (
	"fmt"
	"io"
	"math/rand/v2"
	"unsafe"
)

// Config configures an [Index]. The zero value is good.
type Config struct {
	// Seed keys the hash functions: indexes of one seed hash alike. 0 draws a random one, so
	// that no client can prepare collisions.
	Seed uint64
	// MaxBytes bounds [Stats].Bytes: stores beyond it evict the least used blocks. 0 means no
	// bound; a value below 1 MiB counts as 1 MiB.
	MaxBytes int64
	// Stripes is the number of locks over the child table, rounded up to a power of two. 0
	// means 64.
	Stripes int
}

// defaultStripes is about one for each core of a large router: writers meet there only when
// runs come and go. A stripe is one cache line, and more of them would push other data out of
// the first-level cache.
const defaultStripes = 64

// Index tells which workers hold the leading blocks of a chain. It must not be copied.
type Index struct {
	Hasher
	tree        tree
	workers     workerTable
	matchers    matcherPool
	evictor     evictor
	predictions predictionTree
}

// New returns an empty index.
func New(cfg Config) *Index {
	seed := cfg.Seed
	for seed == 0 {
		seed = rand.Uint64()
	}
	stripes := cfg.Stripes
	if stripes <= 0 {
		stripes = defaultStripes
	}
	x := &Index{Hasher: newHasher(seed)}
	x.workers.init()
	x.tree.init(stripes, &x.keys, cfg.MaxBytes)
	x.matchers.init()
	x.evictor.tree, x.evictor.workers = &x.tree, &x.workers
	x.predictions.init(&x.keys, &x.tree.lastRun)
	stripeBytes := int64(len(x.tree.children.stripes)) * (cacheLine + sliceBytes)
	x.tree.count.bytes.Store(int64(unsafe.Sizeof(*x)) + stripeBytes)
	return x
}

// AddWorker returns the id of a new worker, which holds nothing.
func (x *Index) AddWorker() Worker {
	w := x.workers.add(&x.tree.count.bytes)
	x.matchers.expect(w)
	return w
}

// RemoveWorker drops all that w holds and frees its id. Removing an unknown worker does
// nothing.
//
// A Match that runs meanwhile may still return w. A caller that keeps ids beyond one Match must
// forget w first.
func (x *Index) RemoveWorker(w Worker) {
	o := x.workers.remove(w)
	if o == nil {
		return
	}
	o.mu.Lock()
	o.removed = true
	x.tree.clearLocked(o)
	o.unlock()
	x.workers.release(w)
}

// Clear drops all that w holds.
func (x *Index) Clear(w Worker) {
	o := x.workers.lock(w)
	if o == nil {
		return
	}
	defer o.unlock()
	x.tree.clearLocked(o)
}

// Blocks returns the number of engine hashes that w holds in any tier; 0 for an unknown worker.
func (x *Index) Blocks(w Worker) int {
	o := x.workers.get(w)
	if o == nil {
		return 0
	}
	return int(o.sizes.hashes.Load())
}

// Partial reports whether the memory budget has kept blocks of w out of the index, or evicted
// some, since w was last cleared. Unknown removals and [ErrBudget] are to be expected then.
func (x *Index) Partial(w Worker) bool {
	o := x.workers.get(w)
	return o != nil && o.partial.Load()
}

// SetPartial makes w partial, as it was when its snapshot was written.
func (x *Index) SetPartial(w Worker) {
	if o := x.workers.lock(w); o != nil {
		o.partial.Store(true)
		o.mu.Unlock()
	}
}

// Domain interns k. A domain that has had no blocks for some time is freed, and a [Store] to it
// fails with [ErrUnknownDomain]. So intern at each store, which takes no lock for a known key.
// Keys of client requests go to [Index.FindDomain], as clients choose their content.
func (x *Index) Domain(k DomainKey) Domain { return x.tree.domains.intern(k) }

// FindDomain returns the domain of k if it has been interned; else there is no block of it. It
// takes no lock.
func (x *Index) FindDomain(k DomainKey) (Domain, bool) {
	if d := x.tree.domains.find(&k); d != nil {
		return d.id, true
	}
	return 0, false
}

// Store adds blocks behind their parent. It adds all of them or, if it fails, none.
func (x *Index) Store(s Store) error {
	if len(s.Engine) != len(s.Blocks) {
		return fmt.Errorf("cannot store %d engine hashes for %d blocks: %w",
			len(s.Engine), len(s.Blocks), ErrMismatch)
	}
	if s.Tier >= tiers {
		return fmt.Errorf("cannot store in tier %d: %w", s.Tier, ErrUnknownTier)
	}
	w := x.workers.get(s.Worker)
	if w == nil {
		return fmt.Errorf("cannot store for worker %d: %w", s.Worker, ErrUnknownWorker)
	}
	// Before all locks: the reservation may evict, and the evictor's lock comes before all
	// others.
	reserved, err := x.evictor.reserve(w, len(s.Blocks))
	if err != nil {
		if w := x.workers.lock(s.Worker); w != nil {
			dropAllLocked(&x.tree, w, s.Engine)
			w.unlock()
		}
		return fmt.Errorf("cannot store %d blocks for worker %d: %w", len(s.Blocks), s.Worker, err)
	}
	err = x.store(&s)
	if reserved > 0 {
		x.evictor.release(reserved)
	}
	return err
}

func (x *Index) store(s *Store) error {
	w := x.workers.lock(s.Worker)
	if w == nil {
		return fmt.Errorf("cannot store for worker %d: %w", s.Worker, ErrUnknownWorker)
	}
	defer w.unlock()
	call := storeCall{tree: &x.tree, worker: w, tier: s.Tier}
	at, err := call.start(s)
	if err != nil {
		return err
	}
	if !call.addBlocks(at, s.Blocks, s.Engine) {
		return fmt.Errorf("cannot store for domain %d: %w", s.Domain, ErrUnknownDomain)
	}
	return nil
}

// Remove removes one copy of each block from a tier of w, and returns the number of blocks that
// had none. These change nothing.
func (x *Index) Remove(w Worker, t Tier, engine []uint64) (unknown int) {
	o := x.workers.lock(w)
	if o == nil {
		x.tree.count.unknownRemovals.Add(int64(len(engine)))
		return len(engine)
	}
	defer o.unlock()
	unknown = removeLocked(&x.tree, o, t, engine)
	x.tree.count.unknownRemovals.Add(int64(unknown))
	return unknown
}

// Predict makes p the prediction that w will soon hold the blocks of chain, until p.Forget. An
// earlier prediction of p is forgotten. w is a number of the caller, without large gaps, and no id
// of AddWorker. When memory is short, p has fewer blocks.
func (x *Index) Predict(p *Prediction, w Worker, s Scope, chain []Hash) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forgetLocked()
	if w < maxWorkers {
		x.matchers.expect(w)
		p.startLocked(&x.predictions, w, s, chain)
	}
}

// Dump writes the tree as text for operators, at most maxRuns runs. It walks the whole child
// table, and a tree that changes meanwhile may come out torn.
func (x *Index) Dump(w io.Writer, maxRuns int) { dump(&x.tree, w, maxRuns) }
