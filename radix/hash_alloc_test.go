//go:build !race

package radix

import "testing"

// TestHashDoesNotAllocate covers each level: a pointer that escapes would cost each event an
// allocation.
func TestHashDoesNotAllocate(t *testing.T) {
	x := New(Config{Seed: 1})
	tokens := make([]uint32, 3*pieceMax)
	payload := make([]byte, len(tokens))
	buf := make([]Hash, 0, len(tokens))
	eachLevel(func(name string) {
		for _, size := range []int{1, 16, 17, len(tokens)} {
			n := testing.AllocsPerRun(100, func() {
				buf = x.AppendHashes(buf[:0], tokens, size)
				buf[0] = x.HashBlock(tokens[:size])
				buf[0] = x.Digest(payload[:size])
			})
			if n != 0 {
				t.Errorf("level %s, size %d: AppendHashes, HashBlock and Digest allocate %v times, want 0", name, size, n)
			}
		}
	})
}
