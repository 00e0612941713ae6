package radix

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/warmpath/warmpath/radix/internal/keyed"
)

var levelNames = map[hashLevel]string{levelGo: "go", level128: "128", level512: "512"}

// eachLevel runs f with each level of this CPU.
func eachLevel(f func(name string)) {
	defer func() { hashWith = bestHashLevel() }()
	for hashWith = levelGo; hashWith <= bestHashLevel(); hashWith++ {
		f(levelNames[hashWith])
	}
}

// naiveHash computes the hash bit by bit, from HashBlock's comment.
func naiveHash(k *hashKeys, tokens []uint32) Hash {
	h := uint64(len(tokens)) ^ k[keyLength]
	for piece := range slices.Chunk(tokens, pieceMax) {
		words := make([]uint64, (len(piece)+3)/4*2)
		for i, t := range piece {
			words[i/2] |= uint64(t) << (32 * (i % 2))
		}
		lo, hi := h, k[keyHigh]
		for i := 0; i < len(words); i += 2 {
			for bit := range 64 {
				if (words[i]^k[i])>>bit&1 == 1 {
					lo ^= (words[i+1] ^ k[i+1]) << bit
					hi ^= (words[i+1] ^ k[i+1]) >> (64 - bit)
				}
			}
		}
		h = keyed.Fold(lo, hi)
	}
	return Hash(h)
}

// checkLevels compares every level with naiveHash, for one block and for many, and checks that
// nothing is written behind them.
func checkLevels(t *testing.T, x *Index, tokens []uint32, size int) {
	t.Helper()
	var want []Hash
	for block := range slices.Chunk(tokens[:len(tokens)/size*size], size) {
		want = append(want, naiveHash(&x.keys, block))
	}
	eachLevel(func(name string) {
		got := slices.Repeat([]Hash{42}, len(want)+3)
		x.AppendHashes(got[:1], tokens, size)
		if !slices.Equal(got, slices.Concat([]Hash{42}, want, []Hash{42, 42})) {
			t.Fatalf("level %s, size %d: AppendHashes makes %x, want %x between 2a and 2a, 2a",
				name, size, got, want)
		}
		for i, h := range want {
			if got := x.HashBlock(tokens[i*size : (i+1)*size]); got != h {
				t.Fatalf("level %s, size %d: HashBlock = %x, want %x", name, size, got, h)
			}
		}
	})
}

// TestHashLevels hashes blocks of every size up to three pieces, and numbers of blocks that
// four does not divide.
func TestHashLevels(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for size := 1; size <= 3*pieceMax+1; size++ {
		tokens := make([]uint32, size*(1+r.IntN(11))+r.IntN(size))
		for i := range tokens {
			tokens[i] = r.Uint32() >> r.IntN(32)
		}
		checkLevels(t, New(Config{Seed: r.Uint64() | 1}), tokens, size)
	}
}

func FuzzHashLevels(f *testing.F) {
	f.Add(uint64(1), 16, make([]byte, 64*9))
	f.Add(uint64(2), 1, []byte("abcdefghijklmnop"))
	f.Add(uint64(3), 129, slices.Repeat([]byte{255}, 4*129*2))
	f.Fuzz(func(t *testing.T, seed uint64, size int, data []byte) {
		if size < 1 || size > 1000 || seed == 0 {
			return
		}
		tokens := make([]uint32, len(data)/4)
		for i := range tokens {
			tokens[i] = binary.LittleEndian.Uint32(data[4*i:])
		}
		checkLevels(t, New(Config{Seed: seed}), tokens, size)
	})
}

// TestHashIsFrozen pins the hashes, because snapshots have them: change snapshotVersion with
// them.
func TestHashIsFrozen(t *testing.T) {
	tokens := make([]uint32, 200)
	for i := range tokens {
		tokens[i] = uint32(i * i)
	}
	want := map[int]Hash{
		0: 0xb86c9a98359e0b62, 1: 0x76d9024614b8d454, 7: 0x6d172930b19f7c5f, 16: 0xcfbc5f01e34e4a47, 200: 0xfa0672c39147d1ce,
	}
	for n, want := range want {
		if got := New(Config{Seed: 1}).HashBlock(tokens[:n]); got != want {
			t.Errorf("%d tokens: %#x, want %#x", n, uint64(got), uint64(want))
		}
	}
}

// BenchmarkHashBlocks hashes a number of blocks in one call, from the second-level cache when
// they are 1,024.
func BenchmarkHashBlocks(b *testing.B) {
	x := New(Config{Seed: 1})
	r := rand.New(rand.NewPCG(1, 1))
	eachLevel(func(name string) {
		for _, tt := range []struct{ size, blocks int }{{16, 1}, {16, 16}, {16, 1024}, {1, 1024}, {24, 1024}, {32, 512}, {64, 256}} {
			b.Run(fmt.Sprintf("level=%s/tokens=%d/blocks=%d",
				name, tt.size, tt.blocks), func(b *testing.B) {
				tokens := make([]uint32, tt.size*tt.blocks)
				for i := range tokens {
					tokens[i] = r.Uint32N(150_000)
				}
				buf := make([]Hash, 0, tt.blocks)
				b.ReportAllocs()
				for b.Loop() {
					buf = x.AppendHashes(buf[:0], tokens, tt.size)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(tt.blocks), "ns/block")
			})
		}
		b.Run(fmt.Sprintf("level=%s/one", name), func(b *testing.B) {
			tokens := make([]uint32, 16*64)
			for i := 0; b.Loop(); i++ {
				x.HashBlock(tokens[i%64*16:][:16])
			}
		})
	})
}
