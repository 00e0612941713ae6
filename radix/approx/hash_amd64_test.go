//go:build linux && !purego

package approx

import (
	"encoding/binary"
	"math/big"
	"math/rand/v2"
	"syscall"
	"testing"
	"unsafe"

	"github.com/warmpath/warmpath/radix/internal/keyed"
)

// naiveUnit is what units512 must make of a unit: polynomials over one bit, bit by bit.
func naiveUnit(k *keys, unit []byte, start uint64) Key {
	lo, hi := start, k[keyMix]
	for at := 0; at < len(unit); at += 16 {
		x := binary.LittleEndian.Uint64(unit[at:]) ^ k[keyUnit+at/8]
		y := new(big.Int).SetUint64(binary.LittleEndian.Uint64(unit[at+8:]) ^ k[keyUnit+at/8+1])
		product := new(big.Int)
		for bit := range 64 {
			if x>>bit&1 != 0 {
				product.Xor(product, new(big.Int).Lsh(y, uint(bit)))
			}
		}
		hi ^= new(big.Int).Rsh(product, 64).Uint64()
		lo ^= new(big.Int).And(product, new(big.Int).SetUint64(^uint64(0))).Uint64()
	}
	return Key(keyed.Fold(lo, hi))
}

// guarded returns n bytes with a page that must not be touched right before or right behind them.
func guarded(t *testing.T, n int, behind bool) []byte {
	t.Helper()
	page := syscall.Getpagesize()
	mem, err := syscall.Mmap(-1, 0, 3*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Munmap(mem) })
	for _, p := range [][]byte{mem[:page], mem[2*page:]} {
		if err := syscall.Mprotect(p, syscall.PROT_NONE); err != nil {
			t.Fatal(err)
		}
	}
	if behind {
		return mem[2*page-n : 2*page]
	}
	return mem[page : page+n : page+n]
}

// TestUnits512 compares with naiveUnit, in memory that ends with the units.
func TestUnits512(t *testing.T) {
	if !hasUnits512 {
		t.Skip("this CPU has no VPCLMULQDQ")
	}
	k, r := newKeys(1), rand.New(rand.NewPCG(1, 2))
	for size := 64; size <= 8*unitWords; size += 64 {
		for n := range 5 {
			for _, behind := range []bool{false, true} {
				text, out := guarded(t, n*size, behind), guarded(t, 8*n, behind)
				for i := range text {
					text[i] = byte(r.Uint32())
				}
				dst := unsafe.Slice((*Key)(unsafe.Pointer(unsafe.SliceData(out))), n)
				if !k.units(dst, unsafe.Pointer(unsafe.SliceData(text)), size, 7) {
					t.Fatalf("units of %d bytes are refused", size)
				}
				for i, got := range dst {
					if want := naiveUnit(&k, text[i*size:(i+1)*size], 7); got != want {
						t.Errorf("unit %d of %d of %d bytes: %x, want %x", i, n, size, got, want)
					}
				}
			}
		}
	}
	if k.units(nil, nil, 8*unitWords+64, 0) {
		t.Error("units without words of their own are not refused")
	}
}

// TestWithoutUnits512 cuts prompts as a CPU without it does: equal prompts are equal, others are not.
func TestWithoutUnits512(t *testing.T) {
	had := hasUnits512
	defer func() { hasUnits512 = had }()
	for _, hasUnits512 = range []bool{false, had} {
		tree := New(Config{Seed: 1})
		text := make([]byte, 1024)
		tokens := make([]uint32, 256)
		for i := range text { // no two units are equal
			text[i], tokens[i/4] = byte(i/128), uint32(i/64)
		}
		seen := map[Key]bool{}
		for i := range text {
			text[i] += 100
			tokens[i/4] += 100
			seen[tree.AppendText(nil, 1, text)[i/128]] = true
			seen[tree.AppendTokens(nil, 1, tokens)[i/64]] = true
			if a, b := tree.AppendText(nil, 1, text), tree.AppendText(nil, 1, text); a[7] != b[7] {
				t.Fatal("equal texts have different keys")
			}
		}
		if len(seen) != 2*len(text) {
			t.Errorf("%d different keys of %d different units", len(seen), 2*len(text))
		}
	}
}
