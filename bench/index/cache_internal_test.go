package index

import (
	"slices"
	"testing"
)

// FuzzCache makes any calls on a cache and on a slice with the oldest first.
func FuzzCache(f *testing.F) {
	f.Add([]byte{1, 2, 3, 2, 130, 1, 131, 4})
	f.Fuzz(func(t *testing.T, in []byte) {
		c := newCache()
		var oracle []uint32
		for pos, b := range in {
			block := uint32(b & 7)
			at := slices.Index(oracle, block)
			if at >= 0 {
				oracle = slices.Delete(oracle, at, at+1)
			}
			if b < 128 {
				oracle = append(oracle, block)
				c.touch(block, 1, uint32(pos))
			} else if at >= 0 {
				c.drop(block)
			}
			if c.len() != len(oracle) || c.has(block) != slices.Contains(oracle, block) {
				t.Fatalf("after %v the cache has %d blocks and %d: %t; want %v",
					in[:pos+1], c.len(), block, c.has(block), oracle)
			}
			for i, e := range c.oldest(len(oracle)) {
				if e.block != oracle[i] || in[e.pos]&7 != byte(e.block) {
					t.Fatalf("after %v the oldest blocks are %+v, want %v",
						in[:pos+1], c.oldest(len(oracle)), oracle)
				}
			}
		}
	})
}
