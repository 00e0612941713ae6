package kvevent

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTrim: a reader keeps the memory of a usual message, and none of one that was far larger.
func TestTrim(t *testing.T) {
	for _, n := range []int{1000, 2 * kept} {
		payload := Append(nil, &Batch{Events: []Event{{Kind: Stored, BlockSize: n, Hashes: []uint64{1}, Tokens: make([]uint32, n)}}}, SGLang0523)
		var b Batch
		require.NoError(t, b.Decode(payload))
		require.Len(t, b.Events[0].Tokens, n)
		b.Trim()
		require.Equal(t, n < kept, cap(b.tokens.ids) > 0, "%d tokens", n)
		require.NoError(t, b.Decode(payload), "and reads on")
		require.Len(t, b.Events[0].Tokens, n)
	}
}
