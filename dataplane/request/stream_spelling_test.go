package request_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// spelled are streams of each API: their first event, and their last.
var spelled = map[string]struct{ path, body, first, last string }{
	"generate":    {"/generate", `{"input_ids":[1,2,3],"stream":true}`, "data: {\"text\":\"a\",\"meta_info\":{\"id\":\"x\",\"finish_reason\":null}}\n\n", "data: [DONE]\n\n"},
	"chat":        {"/v1/chat/completions", `{"model":"tiny","messages":[{"role":"user","content":"hi"}],"stream":true}`, "data: {\"id\":\"1\",\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n", "data: [DONE]\n\n"},
	"completions": {"/v1/completions", `{"model":"tiny","prompt":"hi","stream":true}`, "data: {\"choices\":[{\"text\":\"a\"}]}\n\n", "data: [DONE]\n\n"},
	"messages":    {"/v1/messages", messagesBody + `,"stream":true}`, messageStart, "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"},
	"responses":   {"/v1/responses", responsesBody + `,"stream":true}`, "event: response.output_item.added\ndata: {\"type\":\"response.output_item.added\"}\n\n", "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{}}\n\n"},
}

// TestErrorsInTheMiddle: an error behind the beginning of a stream counts against its worker.
// TestErrorsInAnySpelling has the forms in which it comes.
func TestErrorsInTheMiddle(t *testing.T) {
	for name, a := range spelled {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bad, good := newFakeWorker(t, info(1)), newFakeWorker(t, info(1))
			bad.Streams(a.path, a.first+`data: {"id":"1","error":{"message":"boom","code":500}}`+"\n\n"+a.last)
			good.Streams(a.path, a.first+a.last)
			h := start(t, []*fakeWorker{bad, good}, withPolicy("round-robin"))
			for range 12 {
				resp, got := h.Post(a.path, a.body)
				require.Equal(t, http.StatusOK, resp.StatusCode, got)
				require.True(t, strings.HasSuffix(got, a.last), got)
			}
			h.AwaitIdle()
			h.assertBroken([]*fakeWorker{bad, good})
		})
	}
}

// TestStreamsInOtherSpellings: what RFC 9110 and the specification of event streams allow is
// forwarded unchanged, and no fault. TestStreamsInAnySpelling has more of them.
func TestStreamsInOtherSpellings(t *testing.T) {
	const mime = "text/event-stream; charset=utf-8"
	for name, a := range spelled {
		whole := a.first + a.last
		for kind, stream := range map[string]string{
			"a comment behind the end": whole + ": " + strings.Repeat("bye ", 40) + "\n\n",
			"an event behind the end":  whole + "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":1,\"total_tokens\":4}}\n\n",
			"CRLF":                     strings.ReplaceAll(whole, "\n", "\r\n"),
			"CR":                       strings.ReplaceAll(whole, "\n", "\r"),
			"without spaces":           strings.ReplaceAll(strings.ReplaceAll(whole, "data: ", "data:"), "event: ", "event:"),
			"a byte order mark":        "\xef\xbb\xbf" + whole,
			"numbers and pauses":       "id: 1\nretry: 10\n" + whole,
			"no empty line at the end": strings.TrimSuffix(whole, "\n"),
		} {
			if name != "chat" && kind != "without spaces" {
				continue
			}
			t.Run(name+", "+kind, func(t *testing.T) {
				t.Parallel()
				odd, good := newFakeWorker(t, info(1)), newFakeWorker(t, info(1))
				odd.On(a.path, noAnswer{0, mime, stream}.ServeHTTP)
				good.Streams(a.path, whole)
				h, unchanged := start(t, []*fakeWorker{odd, good}, withPolicy("round-robin")), 0
				for range 8 {
					resp, got := h.Post(a.path, a.body)
					require.Equal(t, http.StatusOK, resp.StatusCode, got)
					require.Contains(t, []string{stream, whole}, got)
					if got == stream {
						unchanged++
					}
				}
				require.Equal(t, 4, unchanged)
				h.AwaitIdle()
				require.True(t, h.Worker(odd).Breaker.Clean(), "%d faults", h.Worker(odd).Breaker.Faults())
			})
		}
	}
}

// TestAnswersInOtherSpellings is the same for fields of a head.
func TestAnswersInOtherSpellings(t *testing.T) {
	for name, head := range map[string][2]string{
		"case of a type":     {"Text/Event-Stream; Charset=UTF-8", ""},
		"no coding":          {"text/event-stream", "identity"},
		"no coding, in caps": {"text/event-stream", "Identity"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := spelled["chat"]
			odd, good := newFakeWorker(t, info(1)), newFakeWorker(t, info(1))
			odd.On(a.path, func(rw http.ResponseWriter, r *http.Request) {
				if head[1] != "" {
					rw.Header().Set("Content-Encoding", head[1])
				}
				noAnswer{0, head[0], a.first + a.last}.ServeHTTP(rw, r)
			})
			good.Streams(a.path, a.first+a.last)
			h := start(t, []*fakeWorker{odd, good}, withPolicy("round-robin"))
			for range 8 {
				resp, got := h.Post(a.path, a.body)
				require.Equal(t, http.StatusOK, resp.StatusCode, got)
				require.Equal(t, a.first+a.last, got)
			}
			h.AwaitIdle()
			require.True(t, h.Worker(odd).Breaker.Clean(), "%d faults", h.Worker(odd).Breaker.Faults())
		})
	}
}
