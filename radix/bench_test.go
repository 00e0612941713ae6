package radix

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
)

// shared builds an index: its workers all hold one chain, stored in pieces as engines do, and
// each has a branch of its own at every piece.
func shared(tb testing.TB, workers, depth, piece int) (*Index, Domain, []Hash) {
	tb.Helper()
	x := New(Config{Seed: 1})
	d := x.Domain(DomainKey{Model: "m", BlockSize: 16})
	c := make([]Hash, depth)
	for i := range c {
		c[i] = Hash(i+1) * spread
	}
	for w := range workers {
		id := x.AddWorker()
		for at := 0; at < depth; at += piece {
			s := Store{Worker: id, Domain: d, HasParent: at > 0, Parent: uint64(at) - 1}
			for i := at; i < min(at+piece, depth); i++ {
				s.Engine = append(s.Engine, uint64(i))
				s.Blocks = append(s.Blocks, c[i])
			}
			mustStore(tb, x, s)
			end := uint64(at + len(s.Engine) - 1)
			own := uint64(w+1)<<32 | end
			mustStore(tb, x, Store{Worker: id, HasParent: true, Parent: end, Engine: []uint64{own}, Blocks: []Hash{Hash(own)}})
		}
	}
	return x, d, c
}

// BenchmarkMatch looks up a chain that all workers hold.
func BenchmarkMatch(b *testing.B) {
	for _, workers := range []int{64, 1024} {
		for _, depth := range []int{256, 1024} {
			b.Run(fmt.Sprintf("workers=%d/depth=%d", workers, depth), func(b *testing.B) {
				x, d, c := shared(b, workers, depth, 64)
				buf := make([]Overlap, 0, workers)
				b.ReportAllocs()
				for b.Loop() {
					buf = x.Match(buf[:0], d, c)
				}
			})
		}
	}
}

const (
	benchPrompts = 512
	benchDepth   = 32
	benchWorkers = 64
)

// prompts makes chains of unique blocks behind one common block, as in a conversation trace.
func prompts(n, depth int) (chains [][]Hash, engine [][]uint64) {
	for p := range n {
		c, e := make([]Hash, depth), make([]uint64, depth)
		for i := range c {
			v := uint64(p*depth+i+1) * spread
			if i == 0 {
				v = 1
			}
			c[i], e[i] = Hash(v), v
		}
		chains, engine = append(chains, c), append(engine, e)
	}
	return chains, engine
}

// BenchmarkStoreRemove stores and removes prompts; it reports blocks stored plus blocks
// removed.
func BenchmarkStoreRemove(b *testing.B) {
	for _, content := range []string{"private", "shared"} {
		b.Run("content="+content, func(b *testing.B) {
			x := New(Config{Seed: 1})
			d := x.Domain(DomainKey{})
			chains, engine := prompts(benchPrompts, benchDepth)
			w := x.AddWorker()
			if content == "shared" {
				other := x.AddWorker()
				for p := range chains {
					mustStore(b, x, Store{Worker: other, Domain: d, Engine: engine[p], Blocks: chains[p]})
				}
			}
			p := 0
			b.ReportAllocs()
			for b.Loop() {
				mustStore(b, x, Store{Worker: w, Domain: d, Engine: engine[p], Blocks: chains[p]})
				p = (p + 1) % benchPrompts
				if x.Blocks(w) > benchDepth*benchPrompts/2 {
					x.Remove(w, TierGPU, engine[(p+benchPrompts/2)%benchPrompts])
				}
			}
			b.ReportMetric(2*benchDepth*float64(b.N)/b.Elapsed().Seconds(), "blocks/s")
		})
	}
}

// BenchmarkMatchBesideWriter looks up a chain that another goroutine stores and removes.
func BenchmarkMatchBesideWriter(b *testing.B) {
	x, d, c := shared(b, benchWorkers, 256, 64)
	w := x.AddWorker()
	engine := make([]uint64, len(c))
	for i := range engine {
		engine[i] = uint64(i)
	}
	var stop atomic.Bool
	var writer sync.WaitGroup
	written := 0
	writer.Go(func() {
		for !stop.Load() {
			_ = x.Store(Store{Worker: w, Domain: d, Engine: engine, Blocks: c})
			x.Remove(w, TierGPU, engine)
			written += 2 * len(engine)
		}
	})
	buf := make([]Overlap, 0, benchWorkers+1)
	b.ReportAllocs()
	for b.Loop() {
		buf = x.Match(buf[:0], d, c)
	}
	stop.Store(true)
	writer.Wait()
	b.ReportMetric(float64(written)/b.Elapsed().Seconds(), "blocks/s")
}
