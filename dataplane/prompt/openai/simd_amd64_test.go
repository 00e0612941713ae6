//go:build linux && !purego

package openai

import (
	"bytes"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// withoutSIMD runs f as on a CPU that has none of the instructions.
func withoutSIMD(f func()) {
	text, ids := hasText512, hasIDs256
	hasText512, hasIDs256 = false, false
	f()
	hasText512, hasIDs256 = text, ids
}

// FuzzTextAgainstGo reads a string with both, behind enough plain bytes to come to lie anywhere in
// a block.
func FuzzTextAgainstGo(f *testing.F) {
	for i, s := range []string{
		"", `\n`, `\"`, `\\`, `\\\`, `\u00e9`, `\uD83D\uDE00`, `\u12`, `\u12g4`, `\x`, `\/\b\f\n\r\t\'`, "\x1f", "\\\x1f", "é", "\xff", `\\\\\\\\"`,
		strings.Repeat(`\\`, 40) + `\`, strings.Repeat(`line\n\t\"x\" `, 20), strings.Repeat(`\u4e2d\u6587`, 20), `"` + strings.Repeat(`a\`, 30),
		strings.Repeat("x", 70) + `\u`, strings.Repeat("plain ", 20) + `"` + "\x00",
	} {
		f.Add(uint8(7*i), s)
	}
	f.Fuzz(func(t *testing.T, at uint8, text string) {
		b := slices.Concat(bytes.Repeat([]byte("a"), int(at)), []byte(text), []byte(`","`), bytes.Repeat([]byte(`b\`), 70))
		for _, from := range []int{0, int(at)} {
			end, escaped, err := scanString(b, from)
			withoutSIMD(func() {
				wantEnd, wantEscaped, wantErr := scanString(b, from)
				if (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() {
					t.Fatalf("scanString(%q, %d) = %v, want %v", b, from, err, wantErr)
				}
				if end != wantEnd || err == nil && escaped != wantEscaped {
					t.Fatalf("scanString(%q, %d) = %d, %v, want %d, %v", b, from, end, escaped, wantEnd, wantEscaped)
				}
			})
		}
	})
}

// FuzzIDsAgainstGo reads lists of ids with both.
func FuzzIDsAgainstGo(f *testing.F) {
	long := strings.Repeat("1,22, 333,4444, 55555,666666,7777777,88888888,", 5)
	for i, s := range []string{"", "0", "00", "01,", "999999999,", "4294967295,", " ", ", ", ",,", ", ,", " ,", "x", "]", strings.Repeat("9,", 70), "123456789,", "1,,2", "1,02,"} {
		f.Add(uint16(11*i), s)
	}
	f.Fuzz(func(t *testing.T, at uint16, put string) {
		i := int(at) % len(long)
		b := []byte("[" + long[:i] + put + long[i:] + "7]   ")
		var want promptValue
		var wantIDs []uint32
		var wantEnd int
		withoutSIMD(func() { wantIDs, wantEnd = want.scanIDs([]uint32{5}, b, 1) })
		var got promptValue
		if ids, end := got.scanIDs([]uint32{5}, b, 1); end != wantEnd || got != want || !slices.Equal(ids, wantIDs) {
			t.Fatalf("scanIDs(%q) = %d ids to %d, %+v, want %d to %d, %+v", b, len(ids), end, got, len(wantIDs), wantEnd, want)
		}
	})
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

// TestBlocksStayInside crashes if the assembly reads outside of its input.
func TestBlocksStayInside(t *testing.T) {
	for _, behind := range []bool{false, true} {
		b := guarded(t, 300, behind)
		for _, fill := range []string{"7,", "1234567, ", `\u00e9`, `a\\`, "x", ","} {
			copy(b, bytes.Repeat([]byte(fill), len(b)))
			for from := range len(b) {
				if got, _, _ := skipBlocks(b, from); got < from || got > len(b) {
					t.Errorf("skipBlocks(%q from %d) = %d", fill, from, got)
				}
				if from == 0 || b[from-1] == ',' {
					ids, end := scanBlocks(nil, b, from)
					if end < from || end > len(b) || len(ids) > 0 && end == from {
						t.Errorf("scanBlocks(%q from %d) = %d ids, %d", fill, from, len(ids), end)
					}
				}
			}
		}
	}
}
