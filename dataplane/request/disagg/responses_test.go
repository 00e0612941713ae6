package disagg_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/request/disagg"
)

// TestJudgeResponses cuts each beginning at every byte: no earlier verdict differs from the last.
func TestJudgeResponses(t *testing.T) {
	begin := "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"tools\":[],\"error\":null}}\n\n" +
		"event: response.in_progress\ndata: {\"type\":\"response.in_progress\",\"response\":{}}\n\n"
	tests := []struct {
		name, rest string
		verdict    disagg.Verdict
		failure    disagg.Failure
	}{
		{"text", "event: response.output_item.added\ndata: {\"type\":\"response.output_item.added\"}\n\n", disagg.Good, disagg.Failure{}},
		{"end", "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{}}\n\n", disagg.Good, disagg.Failure{}},
		{"other server", "data: {\"sequence_number\":2,\"type\":\"response.output_text.delta\",\"delta\":\"a\"}\n\n", disagg.Good, disagg.Failure{}},
		{
			"too long", "event: response.failed\ndata: {\"type\":\"response.failed\",\"response\":{\"error\":{\"message\":\"longer than the context\"}}}\n\n",
			disagg.Failed,
			disagg.Failure{Status: 400},
		},
		{
			"transfer", "event: response.failed\ndata: {\"type\":\"response.failed\",\"response\":{\"error\":{\"message\":\"KVTransferError\"}}}\n\n",
			disagg.Failed,
			disagg.Failure{Status: 500, Transfer: true},
		},
		{"error event", "event: error\ndata: {\"type\":\"error\",\"message\":\"m\"}\n\n", disagg.Failed, disagg.Failure{Status: 400}},
		{"an object of nobody's", "data: {\"status\":\"ok\"}\n\n", disagg.Failed, disagg.NoAnswer},
		{"text of nobody's", "data: ready, and more of it to come\n\n", disagg.Failed, disagg.NoAnswer},
		{"error of a proxy", "data: {\"error\":{\"message\":\"m\",\"code\":503}}\n\n", disagg.Failed, disagg.Failure{Status: 503}},
	}
	for _, tt := range tests {
		text := begin + tt.rest
		for cut := range len(text) {
			if verdict, f := disagg.JudgeStream(openai.APIResponses, []byte(text[:cut]), false); verdict != disagg.More {
				require.Equal(t, tt.verdict, verdict, "%s cut at %d", tt.name, cut)
				require.Equal(t, tt.failure, f, "%s cut at %d", tt.name, cut)
				require.Greater(t, cut, len(begin), tt.name)
			}
		}
		verdict, f := disagg.JudgeStream(openai.APIResponses, []byte(text), false)
		require.Equal(t, tt.verdict, verdict, tt.name)
		require.Equal(t, tt.failure, f, tt.name)
	}
	for _, empty := range []string{"", begin, "\n\n"} {
		verdict, _ := disagg.JudgeStream(openai.APIResponses, []byte(empty), true)
		require.Equal(t, disagg.Failed, verdict, empty)
	}
	verdict, _ := disagg.JudgeStream(openai.APIResponses, []byte(begin+"data: {\"type\":\"response.created\",\"x\":\""+strings.Repeat("x", disagg.MaxBegin)), false)
	require.Equal(t, disagg.Good, verdict)
}
