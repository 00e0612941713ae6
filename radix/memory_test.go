//go:build !race

package radix

import (
	"bytes"
	"runtime"
	"testing"
)

// TestManyWorkers has 4,096 holders of one prompt, each with a tail of its own: look-ups find
// all, and a worker takes little memory.
func TestManyWorkers(t *testing.T) {
	const workers, prefix, tail = 4096, 1024, 8
	x := New(Config{Seed: 1})
	d := x.Domain(DomainKey{})
	engine, blocks := make([]uint64, prefix), make([]Hash, prefix)
	for i := range engine {
		engine[i], blocks[i] = uint64(i+1), Hash(i+1)
	}
	before, counted := heap(), x.Stats().Bytes
	ids := make([]Worker, workers)
	for i := range ids {
		ids[i] = x.AddWorker()
		mustStore(t, x, Store{Worker: ids[i], Domain: d, Engine: engine, Blocks: blocks})
	}
	grown, said := heap()-before, x.Stats().Bytes-counted
	t.Logf("%d bytes a worker on a shared prefix of %d blocks, %d counted",
		grown/workers, prefix, said/workers)
	if grown/workers > 1536 || said < grown*85/100 || said > grown*115/100 {
		t.Errorf("%d bytes a worker, %d counted", grown/workers, said/workers)
	}
	for i, w := range ids {
		own := Store{Worker: w, Domain: d, HasParent: true, Parent: prefix}
		for j := range tail {
			own.Engine = append(own.Engine, uint64(1<<32+i*tail+j))
			own.Blocks = append(own.Blocks, Hash(1<<32+i*tail+j))
		}
		mustStore(t, x, own)
	}
	all := x.Match(nil, d, append(blocks[:prefix:prefix], Hash(1<<32), 7))
	sortOverlaps(all)
	for i, o := range all {
		want := int32(prefix)
		if i == 0 {
			want++
		}
		if o != (Overlap{Worker: Worker(i), Blocks: want, GPU: want}) {
			t.Fatalf("worker %d: %+v, want %d blocks", i, o, want)
		}
	}
	if len(all) != workers {
		t.Errorf("Match finds %d workers", len(all))
	}
	checkIndex(t, x)
	for _, w := range ids {
		x.RemoveWorker(w)
	}
	if left := heap() - before; left > 256<<10 {
		t.Errorf("%d bytes stay", left)
	}
	runtime.KeepAlive(x)
}

// TestEntryBytesAreTrue compares the counted bytes with the heap where all copies are entries,
// because each worker has its own engine hashes.
func TestEntryBytesAreTrue(t *testing.T) {
	const workers, prompts, depth = 4, 200, 300
	x := New(Config{Seed: 1})
	d := x.Domain(DomainKey{})
	before, counted := heap(), x.Stats().Bytes
	for g := range workers {
		w := x.AddWorker()
		for p := range prompts {
			s := Store{Worker: w, Domain: d}
			for i := range depth {
				s.Engine = append(s.Engine, uint64(g+1)<<40|uint64(p*depth+i))
				s.Blocks = append(s.Blocks, Hash(p*depth+i+1)*spread)
			}
			mustStore(t, x, s)
		}
	}
	grown, said := heap()-before, x.Stats().Bytes-counted
	t.Logf("%d bytes on the heap, %d counted: %.3f", grown, said, float64(said)/float64(grown))
	if said < grown*85/100 || said > grown*115/100 {
		t.Errorf("%d bytes are counted, %d are on the heap", said, grown)
	}
	checkIndex(t, x)
	// The budget evicts entries, too.
	x.evictor.mu.Lock()
	for x.evictor.evictLocked(1 << 20) {
		continue
	}
	x.evictor.mu.Unlock()
	checkIndex(t, x)
	if s := x.Stats(); s.Entries+s.Runs > 0 || s.EvictedBlocks != workers*prompts*depth {
		t.Errorf("Stats() = %+v after all was evicted", s)
	}
	if left := heap() - before; left > grown/50 {
		t.Errorf("%d of %d bytes stay", left, grown)
	}
	runtime.KeepAlive(x)
}

// TestSnapshotBeyondBudget loads an index into a smaller budget: it has as many blocks as fit,
// and its workers are partial.
func TestSnapshotBeyondBudget(t *testing.T) {
	x := New(Config{Seed: 1})
	d := x.Domain(DomainKey{})
	const workers, prompts, depth = 2, 100, 400
	for g := range workers {
		w := x.AddWorker()
		for p := range prompts {
			s := Store{Worker: w, Domain: d}
			for i := range depth {
				v := uint64(g*prompts*depth + p*depth + i + 1)
				s.Engine, s.Blocks = append(s.Engine, v), append(s.Blocks, Hash(v)*spread)
			}
			mustStore(t, x, s)
		}
	}
	var file bytes.Buffer
	out, err := NewSnapshotWriter(x, &file)
	if err != nil {
		t.Fatal(err)
	}
	for w := range Worker(workers) {
		if err := out.Take(w, "w", nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := out.Close(); err != nil {
		t.Fatal(err)
	}
	for _, budget := range []int{2 * x.Stats().Bytes, x.Stats().Bytes * 9 / 10, 1 << 20} {
		y, restored, err := LoadSnapshot(bytes.NewReader(file.Bytes()), Config{MaxBytes: int64(budget)})
		if err != nil {
			t.Fatal(err)
		}
		s, fits := y.Stats(), budget > x.Stats().Bytes
		partial := y.Partial(restored[0].Worker) || y.Partial(restored[1].Worker)
		if s.Bytes > budget || s.Entries == 0 || fits == partial || fits != (s.Entries == x.Stats().Entries) {
			t.Errorf("budget of %d: Stats() = %+v, partial %t", budget, s, partial)
		}
		checkIndex(t, y)
	}
}
