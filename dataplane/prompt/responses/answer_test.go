package responses_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/prompt/responses"
)

// response is an answer in which the client has hidden numbers that look like a usage.
const response = `{"id":"resp_1","object":"response","created_at":1,"model":"m","output":[{"type":"message","role":"assistant",` +
	`"content":[{"type":"output_text","text":"a \"usage\":{\"input_tokens\":9}"}]}],"status":"completed",` +
	`"usage":{"input_tokens":40,"input_tokens_details":{"cached_tokens":32,"cache_write_tokens":0},"output_tokens":7,"total_tokens":47},` +
	`"tools":[{"type":"function","name":"f","parameters":{"usage":{"input_tokens":1}}}],"metadata":{"input_tokens":5,"cached_tokens":99}}`

func stream(name string) string {
	created := strings.Replace(response, `"usage":{"input_tokens":40,`, `"usage":null,"x":{`, 1)
	return "event: response.created\ndata: {\"type\":\"response.created\",\"response\":" + created + ",\"sequence_number\":0}\n\n" +
		"event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"event: response.completed\\n\"}\n\n" +
		"event: " + name + "\ndata: {\"type\":\"" + name + "\",\"response\":" + response + ",\"sequence_number\":9}\n\n"
}

// TestAnswer cuts answers at every byte.
func TestAnswer(t *testing.T) {
	want := openai.Usage{PromptTokens: 40, CachedTokens: 32, CompletionTokens: 7, HasPrompt: true, HasCached: true}
	var s responses.AnswerScanner
	for _, tt := range []struct {
		text   string
		events bool
	}{
		{response, false},
		{stream("response.completed"), true},
		{strings.ReplaceAll(stream("response.incomplete"), "\n", "\r\n"), true},
		{strings.ReplaceAll(stream("response.failed"), ": ", ":"), true},
	} {
		for cut := range len(tt.text) {
			s.Reset(tt.events)
			_, _ = s.Write([]byte(tt.text[:cut]))
			if a, ok := s.Answer(); ok && cut < len(tt.text)-4 {
				t.Fatalf("after %d bytes of %d: %+v", cut, len(tt.text), a)
			}
			_, _ = s.Write([]byte(tt.text[cut:]))
			a, ok := s.Answer()
			require.True(t, ok, "cut at %d", cut)
			require.Equal(t, want, a.Usage)
			require.Equal(t, "resp_1", a.ID)
			require.True(t, a.Finished())
			if tt.events {
				require.Equal(t, 3, s.Events())
			}
			require.Contains(t, string(a.Output), `"role":"assistant"`)
		}
	}
}

// TestAnswerByBytes writes single bytes.
func TestAnswerByBytes(t *testing.T) {
	var s responses.AnswerScanner
	s.Reset(true)
	for _, b := range []byte(stream("response.completed")) {
		_, _ = s.Write([]byte{b})
	}
	a, ok := s.Answer()
	require.True(t, ok)
	require.Equal(t, 32, a.Usage.CachedTokens)
}

// TestNoAnswer: errors, cut answers and endless ones are no responses.
func TestNoAnswer(t *testing.T) {
	var s responses.AnswerScanner
	for _, text := range []string{"", "{}", `{"error":{"message":"m"}}`, "[]", `"x"`, response[:len(response)-1], `{"object":"response"`} {
		s.Reset(false)
		_, _ = s.Write([]byte(text))
		_, ok := s.Answer()
		require.False(t, ok, text)
	}
	s.Reset(false)
	long := []byte(`{"object":"response","id":"` + strings.Repeat("a", 1<<20) + `"`)
	for range 8 {
		_, _ = s.Write(long)
	}
	_, ok := s.Answer()
	require.False(t, ok)
	s.Reset(true)
	_, _ = s.Write([]byte("event: response.completed\ndata: 5\n\n"))
	_, ok = s.Answer()
	require.False(t, ok)
}
