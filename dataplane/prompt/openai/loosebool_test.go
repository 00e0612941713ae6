package openai_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/prompt/openai"
)

// TestLooseBodies: bodies that FastAPI and Pydantic take beyond the standards are taken here too.
func TestLooseBodies(t *testing.T) {
	var r openai.Request
	for value, want := range map[string]bool{
		`true`: true, `1`: true, `1.0`: true, `"true"`: true, `"True"`: true, `"yes"`: true, `"on"`: true, `"T"`: true, `"1"`: true,
		`false`: false, `0`: false, `0.0`: false, `"false"`: false, `"no"`: false, `"off"`: false, `"0"`: false, `null`: false,
	} {
		require.NoError(t, r.Parse(openai.APICompletions, []byte(`{"prompt":"x","stream":`+value+`}`)), value)
		require.Equal(t, want, r.Stream, value)
	}
	require.NoError(t, r.Parse(openai.APICompletions, []byte(`{"prompt":"x","stream":"\u0074rue"}`)))
	require.True(t, r.Stream)
	for _, value := range []string{`5`, `"5"`, `5.0`, `" 5 "`} {
		require.NoError(t, r.Parse(openai.APICompletions, []byte(`{"prompt":"x","priority":`+value+`}`)), value)
		require.Equal(t, 5, r.Priority, value)
	}
	require.NoError(t, r.Parse(openai.APICompletions, []byte(`{"prompt":"x","priority":true,"routed_dp_rank":false}`)))
	require.Equal(t, 1, r.Priority)
	require.True(t, r.HasRank)
	require.Error(t, r.Parse(openai.APICompletions, []byte(`{"prompt":"x","priority":5.5}`)))
	body := []byte("\ufeff" + ` {"prompt":"x"}`)
	require.NoError(t, r.Parse(openai.APICompletions, body))
	require.Equal(t, "x", string(r.Text))
	require.Equal(t, "\ufeff"+` {"prompt":"x","rid":"a"}`, string(slices.Concat(openai.SpliceField(nil, body, []byte(`"rid":"a"`))...)))
}
