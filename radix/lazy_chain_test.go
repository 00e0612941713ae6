package radix

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestMatchTokens looks up random prompts as tokens and as chains: the answers must be equal,
// and the hashes a prefix of the chain, however many the caller had.
func TestMatchTokens(t *testing.T) {
	x := New(Config{Seed: 1})
	r := rand.New(rand.NewPCG(1, 1))
	var prompts [][]uint32
	for i := range 200 {
		tokens := make([]uint32, r.IntN(2000))
		for j := range tokens {
			tokens[j] = r.Uint32N(1000)
		}
		if i > 0 && len(prompts[i-1]) > 0 {
			old := prompts[r.IntN(i)]
			tokens = append(slices.Clone(old[:r.IntN(len(old)+1)]), tokens...)
		}
		prompts = append(prompts, tokens)
	}
	for _, size := range []int{1, 3, 16} {
		d := x.Domain(DomainKey{BlockSize: size})
		w := []Worker{x.AddWorker(), x.AddWorker(), x.AddWorker()}
		for i, tokens := range prompts[:len(prompts)/2] {
			blocks := x.AppendHashes(nil, tokens, size)
			engine := make([]uint64, len(blocks))
			for j := range engine {
				engine[j] = uint64(i)<<32 | uint64(j)
			}
			mustStore(t, x, Store{Worker: w[i%len(w)], Domain: d, Engine: engine, Blocks: blocks})
		}
		for i, tokens := range prompts {
			chain := x.AppendHashes(nil, tokens, size)
			want := x.Match(nil, d, chain)
			known := chain[:r.IntN(len(chain)+1)]
			got, hashed := x.MatchTokens(nil, slices.Clone(known), d, tokens, size)
			if sortOverlaps(got); !slices.Equal(got, sorted(want)) {
				t.Errorf("size %d, prompt %d: MatchTokens = %v, want %v", size, i, got, want)
			}
			longest := 0
			for _, o := range got {
				longest = max(longest, int(o.Blocks))
			}
			most := max(len(known), longest+min(max(longest, hashFirst), hashAhead))
			if n := len(hashed); n > min(most, len(chain)) || !slices.Equal(hashed, chain[:n]) {
				t.Errorf("size %d, prompt %d: MatchTokens hashes %d of %d blocks; %d known, %d match", size, i, n, len(chain), len(known), longest)
			}
		}
	}
	if got, hashed := x.MatchTokens(nil, nil, 0, prompts[1], 0); got != nil || hashed != nil {
		t.Errorf("MatchTokens of blocks of 0 tokens = %v, %v", got, hashed)
	}
	// Hashes of a longer prompt, as after an edit of a session, must not count beyond the
	// tokens.
	long := x.AppendHashes(nil, prompts[1], 1)
	if got, _ := x.MatchTokens(nil, long, 0, prompts[1][:1], 1); len(got) > 0 && got[0].Blocks > 1 {
		t.Errorf("MatchTokens of one block = %v", got)
	}
}

func sorted(o []Overlap) []Overlap {
	sortOverlaps(o)
	return o
}

// BenchmarkMatchTokens looks up a prompt of 16,384 tokens: held by all workers, by none, and
// with known hashes.
func BenchmarkMatchTokens(b *testing.B) {
	x := New(Config{Seed: 1})
	d := x.Domain(DomainKey{})
	tokens, cold := make([]uint32, 16384), make([]uint32, 16384)
	for i := range tokens {
		tokens[i], cold[i] = uint32(i), uint32(i+1)
	}
	chain := x.AppendHashes(nil, tokens, 16)
	engine := make([]uint64, len(chain))
	for i := range engine {
		engine[i] = uint64(i)
	}
	for range 64 {
		mustStore(b, x, Store{Worker: x.AddWorker(), Domain: d, Engine: engine, Blocks: chain})
	}
	buf := make([]Overlap, 0, 64)
	hashes := make([]Hash, 0, len(chain))
	b.Run("two passes", func(b *testing.B) {
		for b.Loop() {
			hashes = x.AppendHashes(hashes[:0], tokens, 16)
			buf = x.Match(buf[:0], d, hashes)
		}
	})
	for _, tt := range []struct {
		name   string
		tokens []uint32
		known  int
	}{{"held", tokens, 0}, {"cold", cold, 0}, {"known", tokens, len(chain)}} {
		b.Run(tt.name, func(b *testing.B) {
			b.ReportAllocs()
			hashes = append(hashes[:0], chain...)
			for b.Loop() {
				buf, hashes = x.MatchTokens(buf[:0], hashes[:tt.known], d, tt.tokens, 16)
			}
		})
	}
}
