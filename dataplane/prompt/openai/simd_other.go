//go:build !amd64 || purego

package openai

// scanBlocks reads nothing: scanGroups does.
func scanBlocks(dst []uint32, _ []byte, i int) ([]uint32, int) { return dst, i }

// skipBlocks passes a string's plain bytes from i on, in blocks, and returns the place of the first
// thing that is none, or where too little is left.
func skipBlocks(b []byte, i int) (next int, high uint64, escaped bool) {
	i, high = skipWindows(b, i)
	return i, high, false
}

func maxOf(ids []uint32) uint32 { return maxOfEach(ids) }
