package radix

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// partyWorker is a worker with a constant writer, and its right content.
type partyWorker struct {
	mu     sync.Mutex
	id     Worker
	oracle *naive // of this worker alone; guarded by mu
	steps  int
}

func newParty(x *Index) *partyWorker {
	p := &partyWorker{id: x.AddWorker(), oracle: newNaive()}
	p.oracle.domains = historyDomains
	p.clear()
	return p
}

func (p *partyWorker) clear() { p.oracle.workers[p.id] = make(map[uint64]*naiveEntry) }

// step makes one random change.
func (p *partyWorker) step(x *Index, r *rand.Rand) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.fold()
	p.steps++
	switch r.IntN(40) {
	case 0:
		x.Clear(p.id)
		p.clear()
		return nil
	case 1, 2, 3, 4, 5, 6, 7, 8, 9, 10:
		keys := []uint64{uint64(r.IntN(historyEngines)), uint64(r.IntN(historyEngines))}
		got, want := x.Remove(p.id, TierUnknown, keys), p.oracle.remove(p.id, TierUnknown, keys)
		if got != want {
			return fmt.Errorf("Remove(%v) = %d, want %d", keys, got, want)
		}
		return nil
	}
	s := Store{Worker: p.id, Domain: Domain(r.IntN(historyDomains)), Tier: Tier(r.IntN(tiers))}
	if r.IntN(3) > 0 {
		s.HasParent, s.Parent = true, uint64(r.IntN(historyEngines))
	}
	for range r.IntN(6) {
		s.Engine = append(s.Engine, uint64(r.IntN(historyEngines)))
		s.Blocks = append(s.Blocks, Hash(1+r.IntN(historyBlocks)))
	}
	if got, want := x.Store(s), p.oracle.store(s); !errors.Is(got, want) {
		return fmt.Errorf("Store(%+v) = %w, want %w", s, got, want)
	}
	return nil
}

// fold takes removals from the copies where they can only have hit one block; later blocks are
// not affected.
func (p *partyWorker) fold() {
	for _, e := range p.oracle.workers[p.id] {
		for _, one := range e.blocks {
			for t := range one.n {
				if len(e.blocks) == 1 {
					one.n[t] -= e.removed[t]
					e.removed[t] = 0
				}
			}
		}
	}
}

// facts is facts of an index, for the right content of the worker.
func (p *partyWorker) facts(names map[Domain]DomainKey) []string {
	held := p.oracle.workers[p.id]
	all := make([]string, 0, len(held))
	for key, e := range held {
		var at []string
		for _, one := range e.blocks {
			d, chain := parsePath(one.path)
			at = append(at, fmt.Sprintf("%+v %x copies %v", names[d], chain, one.n))
		}
		slices.Sort(at)
		if len(at) == 1 {
			all = append(all, fmt.Sprintf("%x at %s", key, at[0]))
		} else {
			all = append(all, fmt.Sprintf("%x at %q, lost %v", key, at, e.removed))
		}
	}
	slices.Sort(all)
	return append([]string{fmt.Sprintf("worker, %d entries", len(held))}, all...)
}

// TestSnapshotBesideWriters writes a snapshot while runs grow, are trimmed and die: each worker
// must be written as it was at the moment of Take.
func TestSnapshotBesideWriters(t *testing.T) {
	x := New(Config{Seed: 1, Stripes: 2})
	for i := range historyDomains {
		x.Domain(DomainKey{Model: strconv.Itoa(i)})
	}
	var stop atomic.Bool
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop.Store(true)
	parties := make([]*partyWorker, 4)
	for i := range parties {
		parties[i] = newParty(x)
	}
	for i, p := range parties {
		wg.Go(func() {
			for r := rand.New(rand.NewPCG(uint64(i), 9)); !stop.Load(); {
				if err := p.step(x, r); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range liveSnapshots {
		var out plain
		s := newRecordWriter(x, &out)
		var want []string
		for _, p := range parties {
			p.mu.Lock()
			before := p.steps
			err := s.Take(p.id, "", nil)
			want = append(want, p.facts(domainKeys(x))...)
			p.mu.Unlock()
			if err != nil || s.Flush() != nil {
				t.Fatal(err, s.err)
			}
			for p.moved() == before { // the next Take is at another moment
				runtime.Gosched()
			}
		}
		if _, err := s.Close(); err != nil {
			t.Fatal(err)
		}
		y, _, err := loadRecords(&out, Config{Stripes: 2}, maxSnapshotBytes)
		if err != nil {
			t.Fatal(err)
		}
		checkIndex(t, y)
		if got := facts(y); !slices.Equal(got, want) {
			t.Fatalf("loaded:\n%s\ntaken:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

func (p *partyWorker) moved() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.steps
}
