package lru_test

import (
	"slices"
	"testing"

	"github.com/warmpath/warmpath/bench/lru"
)

// FuzzCache makes any calls on a cache and on a slice with the oldest first.
func FuzzCache(f *testing.F) {
	f.Add([]byte{1, 2, 3, 2, 130, 1, 131, 4})
	f.Fuzz(func(t *testing.T, in []byte) {
		c := lru.New[uint32, int]()
		var oracle []uint32
		for pos, b := range in {
			block := uint32(b & 7)
			at := slices.Index(oracle, block)
			if at >= 0 {
				oracle = slices.Delete(oracle, at, at+1)
			}
			if b < 128 {
				oracle = append(oracle, block)
				c.Touch(block, pos)
			} else if at >= 0 {
				c.Drop(block)
			}
			if c.Len() != len(oracle) || c.Has(block) != slices.Contains(oracle, block) {
				t.Fatalf("after %v the cache has %d blocks and %d: %t; want %v",
					in[:pos+1], c.Len(), block, c.Has(block), oracle)
			}
			for i, e := range c.Oldest(len(oracle)) {
				if e.Key != oracle[i] || in[e.Value]&7 != byte(e.Key) {
					t.Fatalf("after %v the oldest blocks are %+v, want %v",
						in[:pos+1], c.Oldest(len(oracle)), oracle)
				}
			}
		}
	})
}
