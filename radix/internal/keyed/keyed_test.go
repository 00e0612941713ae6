package keyed

import (
	"math/big"
	"slices"
	"testing"
)

// TestFill compares Fill with the generator's published output for seed 0: snapshots depend on
// it.
func TestFill(t *testing.T) {
	got := make([]uint64, 3)
	Fill(got, 0)
	if want := []uint64{0xe220a8397b1dcdaf, 0x6e789e6aa1b965f4, 0x06c45d188009454f}; !slices.Equal(got, want) {
		t.Errorf("Fill = %x, want %x", got, want)
	}
}

func TestFold(t *testing.T) {
	words := make([]uint64, 64)
	Fill(words, 1)
	low := new(big.Int).SetUint64(^uint64(0))
	for i := 0; i < len(words); i += 2 {
		p := new(big.Int).Mul(new(big.Int).SetUint64(words[i]), new(big.Int).SetUint64(words[i+1]))
		want := new(big.Int).And(p, low).Uint64() ^ new(big.Int).Rsh(p, 64).Uint64()
		if got := Fold(words[i], words[i+1]); got != want {
			t.Errorf("Fold(%x, %x) = %x, want %x", words[i], words[i+1], got, want)
		}
	}
}
