package radix

import (
	"math/bits"
	"math/rand/v2"
	"testing"
)

func TestHashDependsOnSeedOnly(t *testing.T) {
	tokens := []uint32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19}
	for n := range len(tokens) + 1 {
		a, b, c := New(Config{Seed: 1}), New(Config{Seed: 1}), New(Config{Seed: 2})
		if a.HashBlock(tokens[:n]) != b.HashBlock(tokens[:n]) {
			t.Errorf("%d tokens: hashes differ between indexes of one seed", n)
		}
		if a.HashBlock(tokens[:n]) == c.HashBlock(tokens[:n]) {
			t.Errorf("%d tokens: hashes are equal between seeds", n)
		}
	}
	a, b := New(Config{}), New(Config{})
	if a.HashBlock(tokens) == b.HashBlock(tokens) {
		t.Error("two random seeds hash alike")
	}
}

// TestHashAvalanche flips every input bit of random blocks: about half of the output bits must change, for every
// input bit and every block length, and no two outputs may be equal.
func TestHashAvalanche(t *testing.T) {
	const rounds = 200
	x := New(Config{Seed: 7})
	r := rand.New(rand.NewPCG(1, 1))
	for _, n := range []int{1, 2, 3, 15, 16, 17, 32, 64} {
		tokens := make([]uint32, n)
		for bit := range 32 * n {
			flipped := 0
			for range rounds {
				for i := range tokens {
					tokens[i] = uint32(r.IntN(150_000)) // a vocabulary: the high bits are mostly 0
				}
				h := x.HashBlock(tokens)
				tokens[bit/32] ^= 1 << (bit % 32)
				d := bits.OnesCount64(uint64(h ^ x.HashBlock(tokens)))
				if d == 0 {
					t.Fatalf("%d tokens: bit %d does not matter", n, bit)
				}
				flipped += d
			}
			if mean := float64(flipped) / rounds; mean < 29 || mean > 35 {
				t.Errorf("%d tokens: flipping bit %d flips %.1f bits on average, want about 32", n, bit, mean)
			}
		}
	}
}

// TestHashStructuredBlocks hashes what prompts are full of: runs of one token, swaps, shifts, lengths.
func TestHashStructuredBlocks(t *testing.T) {
	x := New(Config{Seed: 7})
	seen := map[Hash]string{}
	add := func(name string, tokens []uint32) {
		h := x.HashBlock(tokens)
		if old, ok := seen[h]; ok {
			t.Errorf("%s and %s collide", old, name)
		}
		seen[h] = name
	}
	for n := range 80 {
		add("zeros", make([]uint32, n))
	}
	for v := range uint32(2000) {
		tokens := make([]uint32, 16)
		for i := range tokens {
			tokens[i] = v + 1
		}
		add("one token", tokens)
	}
	for i := range 16 {
		for j := range i {
			tokens := make([]uint32, 16)
			for k := range tokens {
				tokens[k] = uint32(100 + k)
			}
			tokens[i], tokens[j] = tokens[j], tokens[i]
			add("swap", tokens)
		}
	}
}

func TestAppendHashes(t *testing.T) {
	x := New(Config{Seed: 1})
	tokens := make([]uint32, 70)
	for i := range tokens {
		tokens[i] = uint32(i)
	}
	for _, size := range []int{-1, 0, 1, 16, 32, 64, 71} {
		got := x.AppendHashes([]Hash{42}, tokens, size)
		want := 1
		if size > 0 {
			want += len(tokens) / size
		}
		if len(got) != want || got[0] != 42 {
			t.Errorf("AppendHashes(size %d) has %d hashes, want %d", size, len(got), want)
		}
		for i, h := range got[1:] {
			if h != x.HashBlock(tokens[i*size:(i+1)*size]) {
				t.Errorf("AppendHashes(size %d)[%d] is not HashBlock of it", size, i)
			}
		}
	}
}

func TestMix(t *testing.T) {
	x := New(Config{Seed: 1})
	seen := map[Hash]bool{5: true}
	for _, extra := range []string{"", "\x00", "a", "ab", "ba", "12345678", "12345678\x00", "123456789"} {
		h := x.Mix(5, []byte(extra))
		if seen[h] {
			t.Errorf("Mix(5, %q) collides", extra)
		}
		if h != x.Mix(5, []byte(extra)) {
			t.Errorf("Mix(5, %q) is not stable", extra)
		}
		seen[h] = true
	}
	if x.Mix(x.Mix(5, []byte("a")), []byte("b")) == x.Mix(x.Mix(5, []byte("b")), []byte("a")) {
		t.Error("Mix ignores the order")
	}
}
