package radix

import (
	"errors"
	"slices"
	"testing"
)

// step is one call of a scripted test; exactly one field is used.
type step struct {
	store  *Store
	err    error // of store
	remove *removal
	clear  bool // worker 0
	match  *lookup
}

type removal struct {
	tier    Tier
	engine  []uint64
	unknown int
}

type lookup struct {
	domain Domain
	chain  []Hash
	want   []Overlap
}

func chain(h ...Hash) []Hash        { return h }
func hashesOf(n ...uint64) []uint64 { return n }

// put stores blocks for worker 0 on the GPU from the root on.
func put(engine []uint64, blocks []Hash) step {
	return step{store: &Store{Engine: engine, Blocks: blocks}}
}

func putAfter(parent uint64, engine []uint64, blocks []Hash) step {
	return step{store: &Store{HasParent: true, Parent: parent, Engine: engine, Blocks: blocks}}
}

func putIn(t Tier, engine []uint64, blocks []Hash) step {
	return step{store: &Store{Tier: t, Engine: engine, Blocks: blocks}}
}

func putFor(w Worker, engine []uint64, blocks []Hash) step {
	return step{store: &Store{Worker: w, Engine: engine, Blocks: blocks}}
}

// putOther stores in domain 1.
func putOther(engine []uint64, blocks []Hash) step {
	return step{store: &Store{Domain: 1, Engine: engine, Blocks: blocks}}
}

// holdsOther expects worker 0 to hold leading blocks of the chain in domain 1.
func holdsOther(c []Hash, blocks int) step {
	s := holds(c, blocks, blocks)
	s.match.domain = 1
	return s
}

func take(t Tier, unknown int, engine ...uint64) step {
	return step{remove: &removal{tier: t, engine: engine, unknown: unknown}}
}

func fails(s step, err error) step { s.err = err; return s }

// holds expects worker 0, and no other, to hold leading blocks of the chain.
func holds(c []Hash, blocks, gpu int) step {
	if blocks == 0 {
		return step{match: &lookup{chain: c}}
	}
	return step{match: &lookup{chain: c, want: []Overlap{{0, int32(blocks), int32(gpu)}}}}
}

func overlaps(c []Hash, want ...Overlap) step { return step{match: &lookup{chain: c, want: want}} }

// script is a named list of calls, which run on an index with two workers and two domains.
type script struct {
	name  string
	steps []step
}

func runScripts(t *testing.T, tests []script) {
	t.Helper()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			x := New(Config{Seed: 1})
			x.Domain(DomainKey{Model: "m"})
			x.Domain(DomainKey{Model: "m", LoRA: "l"})
			x.AddWorker()
			x.AddWorker()
			for i, s := range tt.steps {
				s.run(t, x, i)
				checkIndex(t, x)
			}
		})
	}
}

func TestPrefixesAndHoles(t *testing.T) {
	abcd := chain(1, 2, 3, 4)
	runScripts(t, []script{
		{"nothing is held at first", []step{holds(abcd, 0, 0)}},
		{"a prefix counts", []step{put(hashesOf(1, 2), chain(1, 2)), holds(abcd, 2, 2), holds(chain(1), 1, 1), holds(chain(2), 0, 0), holds(nil, 0, 0)}},
		{"blocks without a common start do not count", []step{put(hashesOf(1, 2), chain(5, 2)), holds(abcd, 0, 0)}},
		{"a parent is continued in place", []step{
			put(hashesOf(1, 2), chain(1, 2)), putAfter(2, hashesOf(3, 4), chain(3, 4)), holds(abcd, 4, 4),
		}},
		{"a branch at any offset", []step{
			put(hashesOf(1, 2, 3, 4), abcd), putAfter(2, hashesOf(5, 6), chain(7, 8)),
			holds(abcd, 4, 4), holds(chain(1, 2, 7, 8), 4, 4), holds(chain(1, 2, 8), 2, 2),
		}},
		{"a hole cuts and heals", []step{
			put(hashesOf(1, 2, 3, 4), abcd), take(TierGPU, 0, 2), holds(abcd, 1, 1),
			putAfter(1, hashesOf(2), chain(2)), holds(abcd, 4, 4),
		}},
		{"the first block missing hides all", []step{
			put(hashesOf(1, 2, 3, 4), abcd), take(TierGPU, 0, 1), holds(abcd, 0, 0), put(hashesOf(9), chain(1)), holds(abcd, 4, 4),
		}},
		{"a removed parent is unknown though its child is there", []step{
			put(hashesOf(1, 2), chain(1, 2)), take(TierGPU, 0, 1), fails(putAfter(1, hashesOf(3), chain(3)), ErrUnknownParent), holds(abcd, 0, 0),
		}},
		{"a parent in another tier is known", []step{
			put(hashesOf(1), chain(1)), putIn(TierCPU, hashesOf(1), chain(1)), take(TierGPU, 0, 1), putAfter(1, hashesOf(2), chain(2)), holds(abcd, 2, 0),
		}},
	})
}

func TestCopiesAndTiers(t *testing.T) {
	abcd := chain(1, 2, 3, 4)
	runScripts(t, []script{
		{"two copies need two removals", []step{
			put(hashesOf(1), chain(1)), put(hashesOf(1), chain(1)), take(TierGPU, 0, 1), holds(abcd, 1, 1), take(TierGPU, 0, 1), holds(abcd, 0, 0), take(TierGPU, 1, 1),
		}},
		{"two engine hashes of one block", []step{
			put(hashesOf(1), chain(1)), put(hashesOf(2), chain(1)), take(TierGPU, 0, 1), holds(abcd, 1, 1), take(TierGPU, 0, 2), holds(abcd, 0, 0),
		}},
		{"tiers are counted apart", []step{
			put(hashesOf(1, 2), chain(1, 2)), putIn(TierCPU, hashesOf(1, 2, 3), chain(1, 2, 3)), holds(abcd, 3, 2),
			take(TierGPU, 0, 2), holds(abcd, 3, 1), take(TierStorage, 1, 2), take(TierCPU, 0, 2), holds(abcd, 1, 1),
		}},
		{"an unknown tier is the fastest that has a copy", []step{
			put(hashesOf(1), chain(1)), putIn(TierStorage, hashesOf(1), chain(1)),
			take(TierUnknown, 0, 1), holds(abcd, 1, 0), take(TierUnknown, 0, 1), holds(abcd, 0, 0), take(TierUnknown, 1, 1),
		}},
		{"unknown engine hashes are counted and change nothing", []step{
			put(hashesOf(1), chain(1)), take(TierGPU, 2, 7, 1, 8), take(Tier(9), 1, 1), holds(abcd, 0, 0),
		}},
	})
}

func TestNamesOfSeveralPlaces(t *testing.T) {
	abcd := chain(1, 2, 3, 4)
	runScripts(t, []script{
		{"a name moves to its latest place", []step{
			put(hashesOf(1), chain(1)), put(hashesOf(1), chain(5)), holds(abcd, 0, 0), holds(chain(5), 1, 1), take(TierGPU, 1, 1, 1), holds(chain(5), 0, 0),
		}},
		{"a name twice in one store moves too", []step{
			put(hashesOf(1, 1), chain(1, 1)), holds(chain(1, 1), 0, 0), take(TierGPU, 0, 1), put(hashesOf(2), chain(1)), holds(chain(1, 1), 1, 1),
		}},
		{"a name in two domains is credited in both until one copy goes", []step{
			put(hashesOf(1, 2), chain(1, 2)), putOther(hashesOf(1, 2), chain(1, 2)), holds(abcd, 2, 2), holdsOther(abcd, 2),
			take(TierGPU, 0, 2), holds(abcd, 1, 1), holdsOther(abcd, 1), take(TierGPU, 1, 2, 2), holds(abcd, 1, 1),
		}},
		{"an engine hash in two domains credits copies that no removal can have hit", []step{
			put(hashesOf(1), chain(1)), put(hashesOf(1), chain(1)), putOther(hashesOf(1), chain(1)),
			take(TierGPU, 0, 1), holds(abcd, 1, 1), holdsOther(abcd, 0), take(TierGPU, 0, 1), holds(abcd, 0, 0), take(TierGPU, 0, 1), take(TierGPU, 1, 1),
		}},
		{"a parent in two domains is the one in the store's", []step{
			put(hashesOf(1), chain(1)), putOther(hashesOf(1), chain(1)), putAfter(1, hashesOf(2), chain(2)), holds(abcd, 2, 2), holdsOther(abcd, 1),
			fails(step{store: &Store{Domain: 9, HasParent: true, Parent: 1}}, ErrUnknownParent),
			take(TierGPU, 0, 1), putAfter(1, hashesOf(3), chain(5)), holds(chain(1, 5), 0, 0), put(hashesOf(1), chain(1)), holds(chain(1, 5), 2, 2),
		}},
		{"a name that moves in one of two domains", []step{
			put(hashesOf(1), chain(1)), putOther(hashesOf(1), chain(1)), put(hashesOf(1), chain(5)), holds(abcd, 0, 0), holds(chain(5), 1, 1), holdsOther(abcd, 1),
			take(TierGPU, 0, 1, 1), take(TierGPU, 1, 1), holds(chain(5), 0, 0), holdsOther(abcd, 0),
		}},
	})
}

func TestWorkersAndErrors(t *testing.T) {
	abcd := chain(1, 2, 3, 4)
	runScripts(t, []script{
		{"clear drops all", []step{
			put(hashesOf(1, 2), chain(1, 2)), {clear: true}, holds(abcd, 0, 0), fails(putAfter(2, hashesOf(3), chain(3)), ErrUnknownParent), take(TierGPU, 1, 1),
		}},
		{"workers share and part", []step{
			put(hashesOf(1, 2, 3), chain(1, 2, 3)), putFor(1, hashesOf(1, 2, 9), chain(1, 2, 9)),
			overlaps(abcd, Overlap{0, 3, 3}, Overlap{1, 2, 2}),
			{clear: true},
			overlaps(chain(1, 2, 9), Overlap{1, 3, 3}),
		}},
		{"a failed store changes nothing", []step{
			fails(put(hashesOf(1), chain(1, 2)), ErrMismatch), fails(putIn(TierUnknown, hashesOf(1), chain(1)), ErrUnknownTier),
			fails(putFor(7, hashesOf(1), chain(1)), ErrUnknownWorker),
			fails(step{store: &Store{Domain: 5, Engine: hashesOf(1), Blocks: chain(1)}}, ErrUnknownDomain),
			fails(putAfter(4, hashesOf(1), chain(1)), ErrUnknownParent), holds(abcd, 0, 0),
		}},
		{"an empty store still checks its parent", []step{put(nil, nil), fails(putAfter(4, nil, nil), ErrUnknownParent)}},
	})
}

func (s step) run(t *testing.T, x *Index, i int) {
	t.Helper()
	switch {
	case s.store != nil:
		if err := x.Store(*s.store); !errors.Is(err, s.err) {
			t.Fatalf("step %d: Store(%+v) = %v, want %v", i, *s.store, err, s.err)
		}
	case s.remove != nil:
		if got := x.Remove(0, s.remove.tier, s.remove.engine); got != s.remove.unknown {
			t.Fatalf("step %d: Remove(%+v) = %d", i, *s.remove, got)
		}
	case s.clear:
		x.Clear(0)
	default:
		got := x.Match(nil, s.match.domain, s.match.chain)
		sortOverlaps(got)
		if !slices.Equal(got, s.match.want) {
			t.Fatalf("step %d: Match(%v) = %v, want %v", i, s.match.chain, got, s.match.want)
		}
	}
}

func TestDomainsNeverMeet(t *testing.T) {
	x := New(Config{})
	keys := []DomainKey{
		{Model: "m", BlockSize: 16},
		{Model: "m", BlockSize: 32},
		{Model: "n", BlockSize: 16},
		{Model: "m", BlockSize: 16, LoRA: "l"},
		{Model: "m", BlockSize: 16, Salt: "l"},
		{Model: "m", BlockSize: 16, Bigram: true},
	}
	w := x.AddWorker()
	for i, k := range keys {
		if _, ok := x.FindDomain(k); ok {
			t.Errorf("FindDomain(%+v) finds a domain that was not interned", k)
		}
		d := x.Domain(k)
		if again, ok := x.FindDomain(k); x.Domain(k) != d || again != d || !ok {
			t.Errorf("Domain(%+v) is not stable", k)
		}
		if got := x.Match(nil, d, chain(1, 2)); len(got) > 0 {
			t.Errorf("domain %d: Match = %v before its store", i, got)
		}
		mustStore(t, x, Store{Worker: w, Domain: d, Engine: hashesOf(uint64(2*i), uint64(2*i+1)), Blocks: chain(1, 2)})
		if got := x.Match(nil, d, chain(1, 2)); len(got) != 1 || got[0].Blocks != 2 {
			t.Errorf("domain %d: Match = %v after its store", i, got)
		}
	}
	if got := x.Match(nil, Domain(len(keys)), chain(1)); got != nil {
		t.Errorf("Match in an unknown domain = %v", got)
	}
}

func mustStore(tb testing.TB, x *Index, s Store) {
	tb.Helper()
	if err := x.Store(s); err != nil {
		tb.Fatal(err)
	}
}

func TestMatchKeepsWhatDstHolds(t *testing.T) {
	x := New(Config{})
	d := x.Domain(DomainKey{})
	w := x.AddWorker()
	mustStore(t, x, Store{Worker: w, Domain: d, Engine: hashesOf(1), Blocks: chain(1)})
	got := x.Match([]Overlap{{Worker: w, Blocks: 9}}, d, chain(1))
	if want := []Overlap{{Worker: w, Blocks: 9}, {w, 1, 1}}; !slices.Equal(got, want) {
		t.Errorf("Match = %v, want %v", got, want)
	}
}

func TestRemovedWorkerLeavesNothingToTheNext(t *testing.T) {
	x := New(Config{})
	d := x.Domain(DomainKey{})
	old := x.AddWorker()
	mustStore(t, x, Store{Worker: old, Domain: d, Engine: hashesOf(1, 2), Blocks: chain(1, 2)})
	x.RemoveWorker(old)
	x.RemoveWorker(old)
	if err := x.Store(Store{Worker: old, Domain: d}); !errors.Is(err, ErrUnknownWorker) {
		t.Errorf("Store for a removed worker = %v", err)
	}
	if n := x.Remove(old, TierGPU, hashesOf(1)); n != 1 {
		t.Errorf("Remove for a removed worker = %d, want 1", n)
	}
	x.Clear(old)
	next, other := x.AddWorker(), x.AddWorker()
	if next != old || other == old {
		t.Errorf("AddWorker() = %d and %d after removing %d", next, other, old)
	}
	if got := x.Match(nil, d, chain(1, 2)); len(got) > 0 || x.Blocks(next) != 0 {
		t.Errorf("the new worker %d holds %v", next, got)
	}
	if err := x.Store(Store{Worker: next, HasParent: true, Parent: 2}); !errors.Is(err, ErrUnknownParent) {
		t.Errorf("Store behind the old worker's block = %v", err)
	}
	checkIndex(t, x)
}

func TestManyWorkersOnOneRun(t *testing.T) {
	const workers = 512
	x := New(Config{})
	d := x.Domain(DomainKey{})
	c := chain(1, 2, 3, 4)
	for i := range workers {
		w := x.AddWorker()
		n := 1 + i%4
		mustStore(t, x, Store{Worker: w, Domain: d, Engine: hashesOf(1, 2, 3, 4)[:n], Blocks: c[:n]})
	}
	got := x.Match(nil, d, c)
	if len(got) != workers {
		t.Fatalf("Match finds %d workers, want %d", len(got), workers)
	}
	for _, o := range got {
		if want := 1 + int32(o.Worker)%4; o.Blocks != want || o.GPU != want {
			t.Fatalf("Match = %+v, want %d blocks", o, want)
		}
	}
	for w := range Worker(workers) {
		if w%64 != 0 {
			x.RemoveWorker(w)
		}
	}
	checkIndex(t, x)
	if got := x.Match(nil, d, c); len(got) != workers/64 {
		t.Errorf("Match finds %d workers after the removals, want %d", len(got), workers/64)
	}
}

func TestRunsEndAtTheirBound(t *testing.T) {
	x := New(Config{})
	d := x.Domain(DomainKey{})
	w := x.AddWorker()
	const n = 2*maxRun + 5
	blocks, engine := make([]Hash, n), make([]uint64, n)
	for i := range blocks {
		blocks[i], engine[i] = Hash(i%7), uint64(i)
	}
	mustStore(t, x, Store{Worker: w, Domain: d, Engine: engine[:100], Blocks: blocks[:100]})
	mustStore(t, x, Store{Worker: w, Domain: d, HasParent: true, Parent: 99, Engine: engine[100:], Blocks: blocks[100:]})
	if got := x.Match(nil, d, blocks); len(got) != 1 || got[0].Blocks != n {
		t.Errorf("Match = %v, want %d blocks", got, n)
	}
	if s := x.Stats(); s.Runs != 3 || s.Blocks != n {
		t.Errorf("Stats() = %+v, want 3 runs of %d blocks", s, n)
	}
	checkIndex(t, x)
}

func TestTrimmedRunIsSealed(t *testing.T) {
	x := New(Config{})
	d := x.Domain(DomainKey{})
	w := x.AddWorker()
	blocks, engine := make([]Hash, 100), make([]uint64, 100)
	for i := range blocks {
		blocks[i], engine[i] = Hash(i), uint64(i)
	}
	mustStore(t, x, Store{Worker: w, Domain: d, Engine: engine, Blocks: blocks})
	x.Remove(w, TierGPU, engine[10:])
	if s := x.Stats(); s.Blocks != 10 {
		t.Errorf("Stats() = %+v after 90 of 100 blocks went, want 10 blocks", s)
	}
	mustStore(t, x, Store{Worker: w, Domain: d, HasParent: true, Parent: 9, Engine: hashesOf(200, 201), Blocks: chain(77, 78)})
	if got := x.Match(nil, d, append(blocks[:10:10], 77, 78)); len(got) != 1 || got[0].Blocks != 12 {
		t.Errorf("Match = %v, want 12 blocks", got)
	}
	if s := x.Stats(); s.Runs != 2 {
		t.Errorf("Stats() = %+v: the trimmed run was extended, want a child", s)
	}
	checkIndex(t, x)
}
