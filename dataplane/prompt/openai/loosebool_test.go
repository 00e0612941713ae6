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

// Every field of an answer is read in every spelling.
func TestLooseAnswers(t *testing.T) {
	var r openai.Request
	parse := func(api openai.API, body string) openai.Answer {
		require.NoError(t, r.Parse(api, []byte(body)), body)
		return r.Answer
	}
	for _, two := range []string{`2`, `2.0`, `"2"`, `" 2"`, `20e-1`} {
		a := parse(openai.APICompletions, `{"prompt":"x","n":`+two+`,"max_tokens":`+two+`,"echo":"yes","logprobs":`+two+`,"stream_options":{"include_usage":1}}`)
		require.Equal(t, openai.Answer{N: 2, MaxTokens: 2, PromptLogprobs: true, Computed: true, IncludeUsage: true}, a, two)
		a = parse(openai.APIChat, `{"messages":[{}],"n":`+two+`,"max_completion_tokens":`+two+`}`)
		require.Equal(t, openai.Answer{N: 2, MaxTokens: 2}, a, two)
		a = parse(openai.APIGenerate, `{"text":"x","return_logprob":1,"logprob_start_len":`+two+`,"sampling_params":{"n":`+two+`,"max_new_tokens":`+two+`}}`)
		require.Equal(t, openai.Answer{N: 2, MaxTokens: 2, PromptLogprobs: true, Computed: true, ComputedFrom: 2}, a, two)
	}
	for logprobs, want := range map[string]bool{"-1": true, `"-1"`: true, "-1.0": true, "1e300": true, "true": true, "0": false, "0.0": false, `"0"`: false, "false": false, "null": false} {
		a := parse(openai.APICompletions, `{"prompt":"x","echo":true,"logprobs":`+logprobs+`}`)
		require.Equal(t, want, a.PromptLogprobs, "%s: SGLang asks whether it is true, as Python does", logprobs)
		require.Equal(t, want, a.Computed, logprobs)
	}
	require.True(t, parse(openai.APIGenerate, `{"text":["x","y"],"return_logprob":[false,"on"]}`).PromptLogprobs)
	require.False(t, parse(openai.APIGenerate, `{"text":["x","y"],"return_logprob":["no",0,null]}`).PromptLogprobs)
	require.Equal(t, 1, parse(openai.APIChat, `{"messages":[{}],"n":2.5}`).N, "which workers refuse")
}
