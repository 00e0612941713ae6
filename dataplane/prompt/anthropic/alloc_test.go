//go:build !race

package anthropic_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/prompt/anthropic"
)

// TestAppendChatAllocates: a conversion allocates for none of the messages.
func TestAppendChatAllocates(t *testing.T) {
	var counts []float64
	for _, turns := range []int{1, 100} {
		body, rules := session(t, turns), of("plain")
		chat, exact, err := anthropic.AppendChat(nil, body, rules)
		require.NoError(t, err)
		require.True(t, exact)
		counts = append(counts, testing.AllocsPerRun(20, func() { chat, _, _ = anthropic.AppendChat(chat[:0], body, rules) }))
	}
	assert.Equal(t, counts[0], counts[1], "of 1 turn and of 100")
	assert.LessOrEqual(t, counts[0], 24.0)
}
