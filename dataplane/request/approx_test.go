package request_test

import (
	"context"
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

// held returns the tokens of all ranks in the approximate tree.
func (h *harness) held() (tokens int64) {
	for _, r := range h.registry.Snapshot().Ranks {
		tokens += h.router.Approx.Held(r)
	}
	return tokens
}

func TestTextIsRoutedByTheApproximateTree(t *testing.T) {
	a, b := newFakeWorker(t, info(1)), newFakeWorker(t, info(1))
	for _, w := range []*fakeWorker{a, b} {
		w.answers("/v1/chat/completions", chatReply(400, 0))
	}
	h := start(t, []*fakeWorker{a, b})
	resp, _ := h.post("/v1/chat/completions", chatBody(1, ""))
	home := resp.Header.Get("X-Warmpath-Worker")
	assert.Equal(t, "approximate", resp.Header.Get("X-Warmpath-Overlap-Source"))
	assert.Regexp(t, `^0/1\d\d$`, resp.Header.Get("X-Warmpath-Overlap"))
	for i := range 5 {
		body := strings.ReplaceAll(chatBody(i, ""), `": `, `":`) // another library's spaces
		resp, _ = h.post("/v1/chat/completions", body)
		assert.Equal(t, home, resp.Header.Get("X-Warmpath-Worker"))
		assert.Regexp(t, `^9\d/1\d\d$`, resp.Header.Get("X-Warmpath-Overlap"))
	}
	h.awaitEnded(6)
	st := h.admin.Status()
	assert.Zero(t, st.Compared)
	assert.EqualValues(t, 6, st.Approx.Compared)
	assert.Less(t, st.Approx.Accuracy, 0.2, "these workers never have anything cached")
}

// TestChatsWithMediaStayAtTheirWorker: text and media before the last turn are the same, and another
// image is another prompt.
func TestChatsWithMediaStayAtTheirWorker(t *testing.T) {
	t.Parallel()
	for name, part := range map[string]string{
		"image": `{"type":"image_url","image_url":{"url":"data:image/png;base64,%s"}}`,
		"url":   `{"type":"image_url","image_url":{"url":"https://example.com/%s.png"}}`,
		"audio": `{"type":"input_audio","input_audio":{"data":"%s","format":"wav"}}`,
		"video": `{"type":"video_url","video_url":{"url":"data:video/mp4;base64,%s"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := newFakeWorker(t, info(1)), newFakeWorker(t, info(1))
			for _, w := range []*fakeWorker{a, b} {
				w.answers("/v1/chat/completions", chatReply(900, 800))
			}
			h := start(t, []*fakeWorker{a, b})
			ask := func(medium string, turns int) (matched int, at string) {
				more := strings.Repeat(`,{"role":"assistant","content":"yes"},{"role":"user","content":"`+strings.Repeat("and more ", 40)+`"}`, turns)
				resp, answer := h.post("/v1/chat/completions", `{"model":"tiny","messages":[{"role":"user","content":[`+
					fmt.Sprintf(part, strings.Repeat(medium, 2000))+`,{"type":"text","text":"`+strings.Repeat("look at this ", 40)+`"}]}`+more+`]}`)
				require.Equal(t, http.StatusOK, resp.StatusCode, answer)
				h.awaitIdle()
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
	held := func() bool { return h.held() != 0 }
	none := func() bool { return h.held() == 0 }

	w.dies("/v1/chat/completions", func(http.ResponseWriter) {})
	resp, _ := h.post("/v1/chat/completions", chatBody(1, ""))
	assert.Equal(t, http.StatusBadGateway, resp.StatusCode)
	assert.Zero(t, h.held(), "it died before the first byte")
	h.awaitReady(1)

	for _, status := range []int{http.StatusBadRequest, http.StatusServiceUnavailable} {
		w.on("/v1/chat/completions", func(rw http.ResponseWriter, _ *http.Request) {
			rw.WriteHeader(status)
			_, _ = io.WriteString(rw, "no")
		})
		h.post("/v1/chat/completions", chatBody(1, ""))
		require.Eventually(t, none, patience, tick, "it answered %d", status)
	}

	reached, seen := make(chan struct{}), make(chan struct{})
	w.on("/v1/chat/completions", func(_ http.ResponseWriter, r *http.Request) {
		close(reached)
		<-r.Context().Done()
		close(seen)
	})
	ctx, leave := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.base+"/v1/chat/completions", strings.NewReader(chatBody(1, "")))
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if resp, err := h.client.Do(req); err == nil {
			_ = resp.Body.Close()
		}
	}()
	<-reached
	assert.True(t, held(), "it is on its way")
	leave()
	<-done
	<-seen
	require.Eventually(t, none, patience, tick, "the client left before the first byte")

	w.dies("/v1/chat/completions", func(rw http.ResponseWriter) { _, _ = io.WriteString(rw, `{"choices":[{"message":{"role":"assistant"`) })
	_, _, err = h.do(http.MethodPost, h.base+"/v1/chat/completions", chatBody(1, ""))
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
		w.answers("/v1/chat/completions", test.reply)
		h.post("/v1/chat/completions", chatBody(1, test.more))
		require.Eventually(t, func() bool { return h.admin.Status().InFlight == 0 }, patience, tick)
		assert.Zero(t, h.router.Approx.Stats().Contradicted)
	}
	w.answers("/v1/chat/completions", chatReply(400, 0))
	h.post("/v1/chat/completions", chatBody(1, ""))
	require.Eventually(t, func() bool { return h.router.Approx.Stats().Contradicted == 1 }, patience, tick)
}
