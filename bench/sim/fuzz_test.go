package sim

import (
	"bytes"
	"testing"
)

// FuzzCacheAgainstNaive reads its input as operations: a byte for the operation and the domain,
// a byte for the length, then one bit for each token.
func FuzzCacheAgainstNaive(f *testing.F) {
	f.Add([]byte{0, 8, 0xaa, 2, 8, 0xaa, 4, 8, 0, 3, 0, 5, 4, 0xa0})
	f.Add([]byte{0, 12, 0xff, 0xff, 0, 12, 0xff, 0xf0, 4, 2, 0, 4, 2, 0})
	f.Fuzz(func(t *testing.T, history []byte) {
		w := newTwin(t)
		for len(history) >= 2 && len(history) < 200 {
			op, n := int(history[0]), int(history[1]%14)
			history = history[2:]
			tokens := make([]uint32, n)
			for i := range tokens {
				if i/8 < len(history) {
					tokens[i] = uint32(history[i/8]>>(i%8)) & 1
				}
			}
			history = history[min(len(history), (n+7)/8):]
			w.step(op%6, twinSpace(op/6), tokens)
		}
	})
}

// FuzzTokenizer: text survives the round trip, and a prefix that ends at a word boundary has a
// prefix of the ids.
func FuzzTokenizer(f *testing.F) {
	f.Add([]byte("hello world"), 5)
	f.Add([]byte("<|im_start|>user\nHi <|im_ <s><<s>\n"), 3)
	f.Add([]byte("äöü  x"), 1)
	f.Fuzz(func(t *testing.T, text []byte, cut int) {
		ids := encode(text)
		if got := decoded(ids); !bytes.Equal(got, text) {
			t.Fatalf("decoded %q, want %q", got, text)
		}
		if cut <= 0 || cut >= len(text) || text[cut] != '\n' {
			return
		}
		head := encode(text[:cut])
		if len(head) > len(ids) || !equalIDs(head, ids[:len(head)]) {
			t.Fatalf("ids of %q are no prefix of those of %q", text[:cut], text)
		}
	})
}

func equalIDs(a, b []uint32) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
