package admin_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/admin"
)

// TestHotPrefixes: two prompts with a common beginning are one prefix, with its holder, its text
// where that was sent, and its depth.
func TestHotPrefixes(t *testing.T) {
	w := newFakeWorker(t, info(1))
	w.Answers("/generate", `{"text":"x","meta_info":{"prompt_tokens":101,"completion_tokens":4}}`)
	h := start(t, []*fakeWorker{w})
	var got admin.HotPrefixes
	_, body := h.get("/index", &got)
	require.Contains(t, body, `"prefixes":[]`, "before the first request")

	ids := func(end int) string {
		var b strings.Builder
		for i := range 100 {
			fmt.Fprintf(&b, "%d,", 1000+i)
		}
		return fmt.Sprintf(`{"input_ids":[%s%d],"sampling_params":{"max_new_tokens":4}}`, b.String(), end)
	}
	story := strings.Repeat("Once upon a time. ", 40)
	for _, body := range []string{
		ids(1), ids(2), ids(3), `{"text":"` + story + `Red."}`, `{"text":"` + story + `Green."}`, `{"text":"Something else"}`,
	} {
		resp, answer := h.Post("/generate", body)
		require.Equal(t, http.StatusOK, resp.StatusCode, answer)
	}
	h.get("/index", &got)
	require.Equal(t, 6, got.Prompts)
	require.False(t, got.Since.IsZero())
	require.Len(t, got.Prefixes, 2)

	p := got.Prefixes[0]
	require.Equal(t, []any{"tiny", 3, 100, true, "", 1}, []any{p.Model, p.Requests, p.Tokens, p.Exact, p.Text, p.Held})
	require.Equal(t, uint32(1000), p.IDs[0], "no tokenizer is known")
	require.Len(t, p.IDs, 12)
	require.Equal(t, []admin.PrefixHolder{{ID: h.Worker(w).Ranks()[0].ID(), Tokens: 96, GPU: 96, Source: "approximate"}}, p.Holders)

	p = got.Prefixes[1]
	require.Equal(t, []any{2, 180, false, 1}, []any{p.Requests, p.Tokens, p.Exact, p.Held})
	require.Empty(t, p.IDs)
	require.True(t, strings.HasPrefix(p.Text, "Once upon a time. Once"))
	require.True(t, strings.HasSuffix(p.Text, "Once upon a time. "))
	require.Contains(t, p.Text, " … ", "its middle is left out")
}

// TestHotPrefixesNest: each of these prompts is the beginning of the next.
func TestHotPrefixesNest(t *testing.T) {
	w := newFakeWorker(t, info(1))
	w.Answers("/generate", idsReply)
	h := start(t, []*fakeWorker{w})
	body := func(n int) string {
		return fmt.Sprintf(`{"input_ids":[%s7]}`, strings.Repeat("7,", n))
	}
	for n := range 16 {
		h.Post("/generate", body(8*(n+1)))
	}
	var got admin.HotPrefixes
	h.get("/index", &got)
	require.Equal(t, 16, got.Prompts)
	require.Len(t, got.Prefixes, 15)
	for i, p := range got.Prefixes {
		require.Equal(t, []any{16 - i, 8*(i+1) + 1}, []any{p.Requests, p.Tokens})
	}
}
