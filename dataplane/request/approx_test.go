package request_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// chatBody is a chat of 12 units with its id in the last message.
func chatBody(id int, more string) string {
	return fmt.Sprintf(`{"model":"tiny", "messages": [ {"role":"system","content":"%s"}, {"role":"user","content":"%d"}]%s}`,
		strings.Repeat("be brief, and kind. ", 80), id, more)
}

func chatReply(prompt, cached int) string {
	return fmt.Sprintf(`{"choices":[{"text":"","message":{"content":""}}],"usage":{"prompt_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d}}}`, prompt, cached)
}

func TestTextIsRoutedByTheApproximateTree(t *testing.T) {
	a, b := newFakeWorker(t, info(1)), newFakeWorker(t, info(1))
	for _, w := range []*fakeWorker{a, b} {
		w.Answers("/v1/chat/completions", chatReply(400, 0))
	}
	h := start(t, []*fakeWorker{a, b})
	resp, _ := h.Post("/v1/chat/completions", chatBody(1, ""))
	home := resp.Header.Get("X-Warmpath-Worker")
	assert.Equal(t, "approximate", resp.Header.Get("X-Warmpath-Overlap-Source"))
	assert.Regexp(t, `^0/1\d\d$`, resp.Header.Get("X-Warmpath-Overlap"))
	for i := range 5 {
		body := strings.ReplaceAll(chatBody(i, ""), `": `, `":`) // another library's spaces
		resp, _ = h.Post("/v1/chat/completions", body)
		assert.Equal(t, home, resp.Header.Get("X-Warmpath-Worker"))
		assert.Regexp(t, `^9\d/1\d\d$`, resp.Header.Get("X-Warmpath-Overlap"))
	}
	h.AwaitEnded(6)
	st := h.Admin.Status()
	assert.Zero(t, st.Compared)
	assert.EqualValues(t, 6, st.Approx.Compared)
	assert.Less(t, st.Approx.Accuracy, 0.2, "these workers never have anything cached")
}

// TestChatsWithMediaStayAtTheirWorker: text and media before the last turn are the same, and another
// image is another prompt.
func TestChatsWithMediaStayAtTheirWorker(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ path, part string }{
		"image":              {"/v1/chat/completions", `{"type":"image_url","image_url":{"url":"data:image/png;base64,%s"}}`},
		"url":                {"/v1/chat/completions", `{"type":"image_url","image_url":{"url":"https://example.com/%s.png"}}`},
		"audio":              {"/v1/chat/completions", `{"type":"input_audio","input_audio":{"data":"%s","format":"wav"}}`},
		"video":              {"/v1/chat/completions", `{"type":"video_url","video_url":{"url":"data:video/mp4;base64,%s"}}`},
		"image of a message": {"/v1/messages", `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"%s"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := newFakeWorker(t, info(1)), newFakeWorker(t, info(1))
			for _, w := range []*fakeWorker{a, b} {
				w.Answers("/v1/chat/completions", chatReply(900, 800))
				w.Answers("/v1/messages", strings.Replace(messageReply, `"input_tokens":3`, `"input_tokens":900`, 1))
			}
			h := start(t, []*fakeWorker{a, b})
			ask := func(medium string, turns int) (matched int, at string) {
				more := strings.Repeat(`,{"role":"assistant","content":"yes"},{"role":"user","content":"`+strings.Repeat("and more ", 40)+`"}`, turns)
				resp, answer := h.Post(c.path, `{"model":"tiny","max_tokens":8,"messages":[{"role":"user","content":[`+
					fmt.Sprintf(c.part, strings.Repeat(medium, 2000))+`,{"type":"text","text":"`+strings.Repeat("look at this ", 40)+`"}]}`+more+`]}`)
				require.Equal(t, http.StatusOK, resp.StatusCode, answer)
				assert.Equal(t, "approximate", resp.Header.Get("X-Warmpath-Overlap-Source"))
				h.AwaitIdle()
				_, err := fmt.Sscanf(resp.Header.Get("X-Warmpath-Overlap"), "%d/", &matched)
				require.NoError(t, err)
				return matched, resp.Header.Get("X-Warmpath-Worker")
			}
			before, home := ask("A", 0)
			assert.Zero(t, before)
			for turns := range 5 {
				matched, at := ask("A", turns+1)
				assert.Greater(t, matched, before)
				assert.Equal(t, home, at)
				before = matched
			}
			other, _ := ask("B", 5)
			assert.Less(t, other, before/4)
		})
	}
}

// TestFailuresAreNotLearnt: a prompt that no worker has computed is in no cache.
func TestFailuresAreNotLearnt(t *testing.T) {
	w := newFakeWorker(t, info(1))
	h := start(t, []*fakeWorker{w})
	held := func() bool { return h.Held() != 0 }
	none := func() bool { return h.Held() == 0 }

	w.Dies("/v1/chat/completions", func(http.ResponseWriter) {})
	resp, _ := h.Post("/v1/chat/completions", chatBody(1, ""))
	assert.Equal(t, http.StatusBadGateway, resp.StatusCode)
	assert.Zero(t, h.Held(), "it died before the first byte")
	h.AwaitReady(1)

	for _, status := range []int{http.StatusBadRequest, http.StatusServiceUnavailable} {
		w.On("/v1/chat/completions", func(rw http.ResponseWriter, _ *http.Request) {
			rw.WriteHeader(status)
			_, _ = io.WriteString(rw, "no")
		})
		h.Post("/v1/chat/completions", chatBody(1, ""))
		require.Eventually(t, none, patience, tick, "it answered %d", status)
	}

	reached, seen := make(chan struct{}), make(chan struct{})
	w.On("/v1/chat/completions", func(_ http.ResponseWriter, r *http.Request) {
		close(reached)
		<-r.Context().Done()
		close(seen)
	})
	leave := h.hold("/v1/chat/completions", chatBody(1, ""))
	<-reached
	assert.True(t, held(), "it is on its way")
	leave()
	<-seen
	require.Eventually(t, none, patience, tick, "the client left before the first byte")

	w.Dies("/v1/chat/completions", func(rw http.ResponseWriter) { _, _ = io.WriteString(rw, `{"choices":[{"message":{"role":"assistant"`) })
	_, _, err := h.Try(http.MethodPost, h.Base+"/v1/chat/completions", chatBody(1, ""))
	require.Error(t, err)
	require.Eventually(t, held, patience, tick, "an answer that has begun was prefilled")
}

// TestAnswersWithoutUsage: without usage, or with one that counts a prompt several times, the
// approximate tree learns nothing of evictions.
func TestAnswersWithoutUsage(t *testing.T) {
	w := newFakeWorker(t, info(1))
	h := start(t, []*fakeWorker{w})
	for _, test := range []struct{ reply, more string }{
		{chatReply(400, 0), ""},
		{`{"choices":[{"text":"","message":{"content":""}}]}`, ""},
		{`{"usage":{"prompt_tokens":400,"prompt_tokens_details":null}}`, ""},
		{chatReply(400, 0), `,"n":2`},
	} {
		w.Answers("/v1/chat/completions", test.reply)
		h.Post("/v1/chat/completions", chatBody(1, test.more))
		require.Eventually(t, func() bool { return h.Admin.Status().InFlight == 0 }, patience, tick)
		assert.Zero(t, h.Routing.Approx.Stats().Contradicted)
	}
	w.Answers("/v1/chat/completions", chatReply(400, 0))
	h.Post("/v1/chat/completions", chatBody(1, ""))
	require.Eventually(t, func() bool { return h.Routing.Approx.Stats().Contradicted == 1 }, patience, tick)
}

// TestAListOfOneIsAPrompt: evaluation harnesses send each prompt in a list. It has the overlap of
// the prompt that is no list; several prompts go by their common beginning.
func TestAListOfOneIsAPrompt(t *testing.T) {
	t.Parallel()
	words, ids := strings.Repeat("some words ", 200), strings.Repeat("7,", 1000)+"8"
	for name, c := range map[string]struct {
		path, one, list, two string
		several              []string
	}{
		"completions": {"/v1/completions", `{"model":"tiny","prompt":"` + words + `"}`, `{"model":"tiny","prompt":["` + words + `"]}`, `{"model":"tiny","prompt":["` + words + `","b"]}`, []string{
			`{"model":"tiny","prompt":["` + words + `one","` + words + `two"]}`, `{"model":"tiny","prompt":["` + words + `\n1","` + words + `\u00e9","` + words + `"]}`,
		}},
		"ids": {"/v1/completions", `{"model":"tiny","prompt":[` + ids + `]}`, `{"model":"tiny","prompt":[[` + ids + `]]}`, `{"model":"tiny","prompt":[[` + ids + `],[1]]}`, []string{
			`{"model":"tiny","prompt":[[` + ids + `,1],[` + ids + `,2]]}`, `{"model":"tiny","prompt":[[` + ids + `],[` + ids + `],[` + ids + `,9,9]]}`,
		}},
		"text":      {"/generate", `{"text":"` + words + `"}`, `{"text":["` + words + `"]}`, `{"text":["` + words + `","b"]}`, []string{`{"text":["` + words + `1","` + words + `2"]}`}},
		"input_ids": {"/generate", `{"input_ids":[` + ids + `]}`, `{"input_ids":[[` + ids + `]]}`, `{"input_ids":[[` + ids + `],[1]]}`, []string{`{"input_ids":[[` + ids + `,1],[` + ids + `,2,3]]}`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var workers []*fakeWorker
			for range 2 {
				w := newFakeWorker(t, info(1))
				w.Answers(c.path, `{"choices":[{"text":"a","message":{"content":"a"}}],"text":"a","meta_info":{"id":"x","finish_reason":null},"usage":{"prompt_tokens":1001,"completion_tokens":1}}`)
				workers = append(workers, w)
			}
			h := start(t, workers)
			matched := func(body string) (n int, at string) {
				resp, answer := h.Post(c.path, body)
				require.Equal(t, http.StatusOK, resp.StatusCode, answer)
				h.AwaitIdle()
				_, err := fmt.Sscanf(resp.Header.Get("X-Warmpath-Overlap"), "%d/", &n)
				require.NoError(t, err)
				return n, resp.Header.Get("X-Warmpath-Worker")
			}
			first, at := matched(c.list)
			assert.Zero(t, first)
			for _, body := range []string{c.list, c.one, c.list} {
				n, again := matched(body)
				assert.Positive(t, n, body[:60])
				assert.Equal(t, at, again)
			}
			n, _ := matched(c.two)
			assert.Zero(t, n)
			for i, list := range c.several {
				n, again := matched(list)
				assert.Equal(t, at, again)
				assert.Positive(t, n, "list %d", i)
			}
		})
	}
}
