package responses_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/prompt/responses"
)

// TestEscapes: a word that decides the chat means the same where a client writes it with escapes.
func TestEscapes(t *testing.T) {
	escape := strings.NewReplacer("@", `\u00`)
	plain := strings.NewReplacer(
		"@64", "d", "@61", "a", "@65", "e", "@66", "f", "@6e", "n", "@70", "p", "@73", "s", "@74", "t", "@75", "u", "@78", "x",
	)
	for _, body := range []string{
		`{"input":[{"role":"@64eveloper","content":"d"}]}`,
		`{"input":[{"role":"@61ssistant","content":"a"},{"role":"assistant","content":"b"}]}`,
		`{"input":[{"type":"@66unction_call","call_id":"c","name":"f","arguments":"{}"}]}`,
		`{"input":[{"role":"user","content":[{"type":"i@6eput_text"}]}]}`,
		`{"input":[{"type":"reasoning","summary":[{"te@78t":"a"},{"text":"b"}]}]}`,
		`{"input":"a","reasoning":{"e@66fort":"none"}}`,
		`{"input":"a","reasoning":{"effort":"@6eone"}}`,
		`{"input":"a","reasoning":{"effort":null,"reasoning_effort":"no@6ee"}}`,
		`{"input":"a","tools":[{"type":"function","name":"f","@70arameters":{"type":"object"},"descriptio@6e":"d","@73trict":true}]}`,
		`{"input":"a","tools":[{"type":"c@75stom","name":"f","format":{"type":"gramm@61r","synta@78":"regex","@64efinition":"x"}}]}`,
		`{"input":"a","tools":[{"type":"function","name":"@66"}],"tool_choice":{"type":"function","n@61me":"f"}}`,
		`{"input":"a","tools":[{"type":"function","name":"f"}],"tool_choice":"@6eone"}`,
	} {
		var c responses.Converter
		want, err := c.AppendChat(nil, []byte(plain.Replace(body)), nil, responses.Dialect{})
		require.NoError(t, err, body)
		got, err := c.AppendChat(nil, []byte(escape.Replace(body)), nil, responses.Dialect{})
		require.NoError(t, err, body)
		assert.Equal(t, normal(decode(t, want)), normal(decode(t, got)), body)
	}
}

// TestNullEffort: SGLang gives a template the null of /v1/responses, and that of a chat not.
func TestNullEffort(t *testing.T) {
	var c responses.Converter
	_, err := c.AppendChat(nil, []byte(`{"input":"a","chat_template_kwargs":{"reasoning_effort":null}}`), nil, responses.Dialect{})
	require.ErrorIs(t, err, responses.ErrUnsupported)
	_, err = c.AppendChat(nil, []byte(`{"input":"a","chat_template_kwargs":{"reasoning_effort":null,"reasoning_effort":"low"}}`), nil, responses.Dialect{})
	require.NoError(t, err)
}

// TestGrammarIsNoText: SGLang writes such a grammar as Python prints it.
func TestGrammarIsNoText(t *testing.T) {
	for _, format := range []string{`"syntax":5`, `"definition":["x"]`, `"syntax":{"a":1},"definition":true`, `"de\u0066inition":7`} {
		var c responses.Converter
		_, err := c.AppendChat(nil, []byte(`{"input":"a","tools":[{"type":"custom","name":"c","format":{"type":"grammar",`+format+`}}]}`), nil, responses.Dialect{})
		require.ErrorIs(t, err, responses.ErrUnsupported, format)
	}
}
