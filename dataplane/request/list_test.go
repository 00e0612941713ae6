package request_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
				w.answers(c.path, `{"choices":[{"text":"a","message":{"content":"a"}}],"text":"a","meta_info":{"id":"x","finish_reason":null},"usage":{"prompt_tokens":1001,"completion_tokens":1}}`)
				workers = append(workers, w)
			}
			h := start(t, workers)
			matched := func(body string) (n int, at string) {
				resp, answer := h.post(c.path, body)
				require.Equal(t, http.StatusOK, resp.StatusCode, answer)
				h.awaitIdle()
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
