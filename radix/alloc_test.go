//go:build !race

package radix

import (
	"runtime"
	"slices"
	"testing"
)

func TestMatchDoesNotAllocate(t *testing.T) {
	x, d, c := shared(t, 64, 256, 32)
	buf := make([]Overlap, 0, 64)
	buf = x.Match(buf[:0], d, c)
	if len(buf) != 64 {
		t.Fatalf("Match finds %d workers, want 64", len(buf))
	}
	if n := testing.AllocsPerRun(100, func() { buf = x.Match(buf[:0], d, c) }); n != 0 {
		t.Errorf("Match allocates %v times, want 0", n)
	}
}

func TestMatchTokensDoesNotAllocate(t *testing.T) {
	x := New(Config{})
	d := x.Domain(DomainKey{})
	tokens := make([]uint32, 1024)
	hashes := x.AppendHashes(nil, tokens, 16)
	mustStore(t, x, Store{Worker: x.AddWorker(), Domain: d, Engine: make([]uint64, 1), Blocks: hashes[:1]})
	buf := make([]Overlap, 0, 1)
	if n := testing.AllocsPerRun(100, func() { buf, hashes = x.MatchTokens(buf[:0], hashes[:0], d, tokens, 16) }); n != 0 || len(buf) != 1 {
		t.Errorf("MatchTokens allocates %v times, want 0; it finds %v", n, buf)
	}
}

func TestAppendHashesDoesNotAllocate(t *testing.T) {
	x := New(Config{})
	tokens := make([]uint32, 1024)
	buf := make([]Hash, 0, 64)
	if n := testing.AllocsPerRun(100, func() { buf = x.AppendHashes(buf[:0], tokens, 16) }); n != 0 {
		t.Errorf("AppendHashes allocates %v times, want 0", n)
	}
}

// TestPredictDoesNotAllocate repeats a prediction, which reuses its memory.
func TestPredictDoesNotAllocate(t *testing.T) {
	x := New(Config{Seed: 1})
	a, b := x.AddWorker(), x.AddWorker()
	key := DomainKey{Model: "a model with a name", LoRA: "an adapter", Salt: "a salt that is longer than what the stack has room for"}
	tokens := make([]uint32, 1024)
	c := x.AppendHashes(nil, tokens, 16)
	var first, second, p Prediction
	x.Predict(&first, a, x.Scope(key), c)
	x.Predict(&second, b, x.Scope(key), c[:32])
	buf, hashes := make([]Overlap, 0, 2), make([]Hash, 0, len(c))
	request := func() {
		s := x.Scope(key)
		buf, hashes = x.MatchPredictedTokens(buf[:0], hashes[:0], s, tokens, 16)
		buf = x.MatchPredicted(buf[:0], s, c)
		x.Predict(&p, b, s, c)
		p.Confirm()
		p.Forget()
	}
	request()
	if n := testing.AllocsPerRun(100, request); n != 0 || len(buf) != 2 {
		t.Errorf("a prediction allocates %v times, want 0; found are %v", n, buf)
	}
}

// TestMemoryIsGivenBack fills an index and empties it in each possible way: all counts and the
// heap must be as before.
func TestMemoryIsGivenBack(t *testing.T) {
	tests := []struct {
		name  string
		empty func(x *Index, w Worker, engine []uint64)
	}{
		{"clear", func(x *Index, w Worker, _ []uint64) { x.Clear(w) }},
		{"remove worker", func(x *Index, w Worker, _ []uint64) { x.RemoveWorker(w) }},
		{"remove tail first", func(x *Index, w Worker, engine []uint64) {
			for i := range slices.Backward(engine) {
				x.Remove(w, TierGPU, engine[i:i+1])
			}
		}},
		{"remove head first", func(x *Index, w Worker, engine []uint64) { x.Remove(w, TierGPU, engine) }},
	}
	const workers, prompts, depth = 4, 250, 1000 // a million entries
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			x := New(Config{Seed: 1})
			d := x.Domain(DomainKey{})
			engine := make([]uint64, prompts*depth)
			blocks := make([]Hash, len(engine))
			for i := range engine {
				engine[i], blocks[i] = uint64(i), Hash(i)*spread
			}
			before := heap()
			for range workers {
				w := x.AddWorker()
				for p := range prompts {
					mustStore(t, x, Store{Worker: w, Domain: d, Engine: engine[p*depth : (p+1)*depth], Blocks: blocks[p*depth : (p+1)*depth]})
				}
			}
			s, grown := x.Stats(), heap()-before
			if s.Entries != workers*prompts*depth || s.Blocks != prompts*depth || s.Runs != prompts || s.Holds != workers*prompts {
				t.Errorf("Stats() = %+v of the full index", s)
			}
			if s.Bytes < grown/2 || s.Bytes > 2*grown {
				t.Errorf("Stats().Bytes = %d, the heap grew by %d", s.Bytes, grown)
			}
			t.Logf("%.1f heap bytes an entry", float64(grown)/float64(s.Entries))
			for w := range Worker(workers) {
				tt.empty(x, w, engine)
			}
			if s := x.Stats(); s.Entries+s.Blocks+s.Runs+s.Holds > 0 || s.UnknownRemovals > 0 {
				t.Errorf("Stats() = %+v of the emptied index", s)
			}
			if left := heap() - before; left > grown/100 {
				t.Errorf("%d of %d bytes stay on the heap", left, grown)
			}
			runtime.KeepAlive(x)
			runtime.KeepAlive(engine)
			runtime.KeepAlive(blocks)
		})
	}
}

// heap returns the live bytes. The first of two collections only ages the content of
// sync.Pools.
func heap() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// TestStoreAllocates stores unique prompts for a worker with a full cache: each takes two
// allocations, a long prompt one more for each page of its blocks, and a prediction one.
func TestStoreAllocates(t *testing.T) {
	const room = 512
	for _, tt := range []struct{ blocks, want int }{{4, 2}, {64, 2}, {90, 3}, {700, 4}} {
		x := New(Config{Seed: 1})
		w, d := x.AddWorker(), x.Domain(DomainKey{BlockSize: 16})
		var held [room][]uint64
		var foretold [room]Prediction
		blocks := make([]Hash, tt.blocks)
		next, turn := uint64(0), 0
		store := func() {
			names := held[turn%room]
			if x.Remove(w, TierGPU, names) != 0 {
				t.Fatalf("Remove does not find stored blocks")
			}
			if names == nil {
				names = make([]uint64, tt.blocks)
				held[turn%room] = names
			}
			for i := range blocks {
				next += spread
				blocks[i], names[i] = Hash(next), next
			}
			mustStore(t, x, Store{Worker: w, Domain: d, Engine: names, Blocks: blocks})
			turn++
		}
		predict := func() {
			x.Predict(&foretold[turn%room], w, 0, blocks)
			blocks[0] += spread
			turn++
		}
		for range 4 * room { // until the tables have their sizes
			store()
		}
		if n := testing.AllocsPerRun(room, store); int(n) > tt.want {
			t.Errorf("to store %d blocks takes %v allocations, want %d", tt.blocks, n, tt.want)
		}
		for range 4 * room {
			predict()
		}
		if n := testing.AllocsPerRun(room, predict); int(n) > 1 {
			t.Errorf("to predict %d blocks takes %v allocations, want 1", tt.blocks, n)
		}
	}
}
