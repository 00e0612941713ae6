package mock

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAppendTokens(t *testing.T) {
	q, ok := parseAsk(generate, []byte(`{"input_ids":[1, 22,333],"stream":false}`))
	require.True(t, ok)
	require.Equal(t, []uint32{1, 22, 333}, q.appendTokens(nil))
	q, ok = parseAsk(chat, []byte(`{"messages":[{"role":"user","content":"x"}],"max_completion_tokens":7,"stream":true}`))
	require.True(t, ok)
	require.True(t, q.stream)
	require.Equal(t, 7, q.tokens)
	long := appendText(nil, []byte("the same beginning, and more"))
	require.Equal(t, long[:4], appendText(nil, []byte("the same beginning, and more")[:16]), "tokens of a prefix are a prefix")
	for _, id := range long {
		require.Less(t, id, uint32(vocabulary))
	}
	for _, bad := range []string{``, `[]`, `{}`, `{"stream":true}`, `{"text"`, `{"text":"a`, `{"text":"a"`} {
		_, ok := parseAsk(generate, []byte(bad))
		require.False(t, ok, "%q has no prompt", bad)
	}
}
