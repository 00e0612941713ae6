//go:build linux

package radix

import (
	"syscall"
	"testing"
	"unsafe"
)

// guarded returns n words with a protected page right before or right behind them.
func guarded(t *testing.T, n int, behind bool) []uint32 {
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
	words := unsafe.Slice((*uint32)(unsafe.Pointer(&mem[page])), page/4)
	if behind {
		return words[len(words)-n:]
	}
	return words[:n:n]
}

// TestHashStaysInside crashes if the assembly touches memory outside of its arguments.
func TestHashStaysInside(t *testing.T) {
	x := New(Config{Seed: 1})
	for _, behind := range []bool{false, true} {
		tokens, hashes := guarded(t, 5*pieceMax, behind), guarded(t, 1024, behind)
		eachLevel(func(string) {
			for size := 1; size <= pieceMax; size++ {
				for n := 1; n <= 5; n++ {
					in, out := tokens[:size*n], hashes[:2*n]
					if behind {
						in, out = tokens[len(tokens)-size*n:], hashes[len(hashes)-2*n:]
					}
					hashPieces(&x.keys, unsafe.Slice((*Hash)(unsafe.Pointer(&out[0])), n), in, size, 1)
				}
			}
		})
	}
}
