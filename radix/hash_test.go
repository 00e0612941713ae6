//go:build !race || soak

package radix

import (
	"fmt"
	"math"
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

// TestHashAvalanche flips every input bit of random blocks: about half of the output bits must
// change, for every input bit and every block length, and no two outputs may be equal.
func TestHashAvalanche(t *testing.T) {
	const rounds = 200
	x := New(Config{Seed: 7})
	r := rand.New(rand.NewPCG(1, 1))
	for _, n := range []int{1, 2, 3, 15, 16, 17, 32, 64, 150} {
		tokens := make([]uint32, n)
		for bit := 0; bit < 32*n; bit += 1 + n/17 { // some of the bits of long blocks
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
				t.Errorf("%d tokens: flipping bit %d flips %.1f bits on average, want about 32",
					n, bit, mean)
			}
		}
	}
}

// TestHashStructuredBlocks hashes blocks as in prompts: small numbers, repeats, swaps, shifts,
// single changes, lengths. All hashes must differ, and their halves collide no more often than
// by chance.
func TestHashStructuredBlocks(t *testing.T) {
	for _, size := range []int{16, 40} {
		x := New(Config{Seed: 7})
		seen := map[Hash]string{}
		block := make([]uint32, size)
		add := func(name string, tokens []uint32) {
			h := x.HashBlock(tokens)
			if old, ok := seen[h]; ok {
				t.Errorf("%s and %s collide", old, name)
			}
			seen[h] = name
		}
		for v := range uint32(50_000) {
			for i := range block {
				block[i] = v + 1
			}
			add("one token everywhere", block)
			for i := range block {
				block[i] = v + uint32(i)
			}
			add("counting from v", block)
		}
		for a := range uint32(200) {
			for b := range uint32(200) {
				clear(block)
				block[2], block[6] = a+1, b+201 // the first tokens of two words with different partners
				add("small numbers", block)
			}
		}
		for i := range size {
			for bit := range 32 {
				for j := range i { // the same change twice must not cancel
					clear(block)
					block[i], block[j] = 1<<bit, 1<<bit
					add("two equal bits", block)
				}
			}
			for j := range i {
				for k := range block {
					block[k] = uint32(100 + k)
				}
				block[i], block[j] = block[j], block[i]
				add("swap", block)
			}
		}
		for n := 1; n < 3*pieceMax; n++ {
			add("zeros", make([]uint32, n))
		}
		checkHalves(t, seen)
	}
}

// checkHalves counts collisions of the halves of n hashes; the mean is n*n/2 pairs by 2^-32.
func checkHalves(t *testing.T, hashes map[Hash]string) {
	t.Helper()
	low, high := map[uint32]bool{}, map[uint32]bool{}
	for h := range hashes {
		low[uint32(h)], high[uint32(h>>32)] = true, true
	}
	n := len(hashes)
	mean := float64(n) * float64(n) / (1 << 33)
	for name, half := range map[string]int{"low": len(low), "high": len(high)} {
		if got := float64(n - half); got > mean+6*math.Sqrt(mean)+6 {
			t.Errorf("the %s halves of %d hashes collide %.0f times, want about %.1f",
				name, n, got, mean)
		}
	}
}

// TestHashBitsAreFair hashes blocks that differ in few bits: each bit of the hashes must be set
// in half of them, and each two bits must be equal in half of them.
func TestHashBitsAreFair(t *testing.T) {
	const n = 1 << 16
	x := New(Config{Seed: 7})
	for _, size := range []int{1, 2, 5, 16, 64, 200} {
		block := make([]uint32, size)
		var set [64]int
		var equal [64]int // to the next bit
		for v := range uint32(n) {
			block[int(v)%size] = v
			h := uint64(x.HashBlock(block))
			next := bits.RotateLeft64(h, -1)
			for i := range 64 {
				set[i] += int(h >> i & 1)
				equal[i] += int(^(h ^ next) >> i & 1)
			}
		}
		for i := range 64 {
			for name, got := range map[string]int{"is set": set[i], "equals the next one": equal[i]} {
				if math.Abs(float64(got)-n/2) > 5*math.Sqrt(n)/2 { // five standard deviations
					t.Errorf("%d tokens: bit %d %s in %d of %d hashes", size, i, name, got, n)
				}
			}
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

// TestDigest expects different digests for different bytes, of any length and alignment, and
// equal ones at all levels.
func TestDigest(t *testing.T) {
	x := New(Config{Seed: 1})
	memory := make([]byte, 3*512+16)
	seen := map[Hash]string{}
	for _, n := range []int{0, 1, 2, 3, 4, 5, 7, 8, 511, 512, 513, 1024, 1027, 1536} {
		for at := range 4 {
			p := memory[at : at+n]
			clear(p)
			want := x.Digest(p)
			if at == 0 {
				note(t, seen, want, fmt.Sprintf("%d zeros", n))
			}
			eachLevel(func(name string) {
				if got := x.Digest(p); got != want {
					t.Errorf("level %s: digest of %d zeros at %d is %x, want %x",
						name, n, at, got, want)
				}
			})
			for i := range p {
				p[i] = 1
				if got := x.Digest(p); at == 0 {
					note(t, seen, got, fmt.Sprintf("%d zeros but for %d", n, i))
				}
				p[i] = 0
			}
		}
	}
	if other := New(Config{Seed: 2}); other.Digest(memory) == x.Digest(memory) {
		t.Error("the digest does not depend on the seed")
	}
}

// note fails if the hash is known for another input.
func note(t *testing.T, seen map[Hash]string, h Hash, what string) {
	t.Helper()
	if old, ok := seen[h]; ok {
		t.Errorf("%s and %s have one digest", old, what)
	}
	seen[h] = what
}
