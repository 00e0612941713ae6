package anthropic_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/prompt/anthropic"
	"github.com/warmpath/warmpath/dataplane/prompt/openai"
)

// TestNothingConverted: a body of which nothing is converted is left to the worker, which takes it.
func TestNothingConverted(t *testing.T) {
	for _, messages := range []string{
		`[{"role":"user","content":[{"type":"search_result","source":"s","title":"t","content":[{"type":"text","text":"x"}]}]}]`,
		`[{"role":"user","content":[{"type":"document"}]}]`,
		`[{"role":"tool","content":"x"}]`,
	} {
		chat, exact, err := anthropic.AppendChat(nil, []byte(`{"model":"m","max_tokens":5,"messages":`+messages+`}`), of("plain"))
		require.NoError(t, err)
		assert.False(t, exact)
		var req openai.Request
		require.NoError(t, req.Parse(openai.APIMessages, chat), messages)
		assert.Contains(t, string(req.Messages), `role`)
	}
}
