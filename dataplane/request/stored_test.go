package request_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestStored: only prompts that must have added pages to the cache count against a rank without
// events.
func TestStored(t *testing.T) {
	t.Parallel()
	ids := strings.Trim(strings.Repeat("7,", 100), ",")
	answer := func(prompt, cached, out int) string {
		return fmt.Sprintf(`{"text":"a","output_ids":[5],"meta_info":{"prompt_tokens":%d,"cached_tokens":%d,"completion_tokens":%d}}`, prompt, cached, out)
	}
	tests := []struct {
		name, more, answer string
		want               uint64
	}{
		{"new", "", answer(100, 0, 1), 96},
		{"half new", "", answer(100, 48, 1), 48},
		{"cached but for its last page", "", answer(100, 96, 1), 0},
		{"log probabilities of the prompt", `,"return_logprob":true,"logprob_start_len":0`, answer(100, 0, 1), 0},
		{"log probabilities", `,"return_logprob":true`, answer(100, 0, 1), 0},
		{"no token", "", answer(100, 0, 0), 0},
		{"another length", "", answer(200, 0, 1), 0},
		{"several answers", `,"sampling_params":{"n":2}`, answer(100, 0, 1), 0},
		{"a session", `,"session_params":{"id":"s"}`, answer(100, 0, 1), 0},
		{"a warm-up's pair", `,"bootstrap_host":"2.2.2.2","bootstrap_room":0`, answer(100, 0, 1), 0},
		{"a search by beams", `,"sampling_params":{"beam_width":4}`, answer(100, 0, 1), 0},
		{"an image", `,"image_data":"x"`, answer(100, 0, 1), 0},
		{"more cached than there is", "", answer(100, 101, 1), 0},
		{"nothing said", "", `{"text":"a"}`, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newFakeWorker(t, info(1))
			w.Answers("/generate", tt.answer)
			h := start(t, []*fakeWorker{w})
			resp, _ := h.Post("/generate", `{"input_ids":[`+ids+`]`+tt.more+`}`)
			require.Equal(t, http.StatusOK, resp.StatusCode)
			h.AwaitEnded(1)
			require.Equal(t, tt.want, h.Registry.Snapshot().Ranks[0].Count.Stored.Load())
		})
	}
}

// TestImpossibleClaims: a report of more cached tokens than the prompt has is ignored.
func TestImpossibleClaims(t *testing.T) {
	w := newFakeWorker(t, info(1))
	h := start(t, []*fakeWorker{w})
	for i, claim := range []int{40, 101, 1 << 40} {
		w.Answers("/generate", fmt.Sprintf(`{"text":"a","meta_info":{"prompt_tokens":100,"cached_tokens":%d,"completion_tokens":1}}`, claim))
		h.Post("/generate", `{"text":"a b c"}`)
		h.AwaitEnded(uint64(i + 1))
	}
	st := h.Admin.Status()
	require.InDelta(t, 0.4, st.HitRate, 1e-9)
	require.InDelta(t, 0.4, st.Workers[0].HitRate, 1e-9)
	require.EqualValues(t, 100, st.PromptTokens)
}
