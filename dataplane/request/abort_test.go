package request_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTheWorkersIDIsAborted: of equal members the worker takes the last, so that id is aborted
// when the client leaves.
func TestTheWorkersIDIsAborted(t *testing.T) {
	for _, body := range []string{
		`{"text":"x"}`,
		`{"rid":null,"text":"x"}`,
		`{"rid":"","text":"x"}`,
		`{"rid":[],"text":"x"}`,
		`{"text":"x","rid":"mine"}`,
		`{"rid":"first","text":"x","rid":"last"}`,
		`{"rid":"first","text":"x","rid":null}`,
		`{"\u0072id":null,"text":"x"}`,
		`{"\u0072id":"mi\u006ee","text":"x"}`,
		`{"rid":"a","text":"x","r\u0069d":""}`,
		`{"rid":"\ud800","text":"x"}`,
		`{"rid":"w","text":"x"}`,
		`{"rid":"wp-0","text":"x"}`,
		`{"rid":"re","text":"x"}`,
		`{"rid":"resp_0","text":"x"}`,
		`{"rid":["resp_0","b"],"text":["x","y"]}`,
		`{"rid":["a","b"],"text":["x","y"]}`,
		`{"rid":["a",""],"text":["x","y"]}`,
		`{"rid":null,"text":["x","y"] }`,
	} {
		t.Run(body, func(t *testing.T) {
			w := newFakeWorker(t, info(1))
			begun := make(chan struct{})
			w.on("/generate", func(_ http.ResponseWriter, r *http.Request) {
				close(begun)
				<-r.Context().Done()
			})
			h := start(t, []*fakeWorker{w})
			ctx, leave := context.WithCancel(t.Context())
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.base+"/generate", strings.NewReader(body))
			require.NoError(t, err)
			go func() {
				if resp, err := h.client.Do(req); err == nil {
					_, _ = io.Copy(io.Discard, resp.Body)
					_ = resp.Body.Close()
				}
			}()
			<-begun
			leave()
			for _, id := range idsOf(t, w.lastBody()) {
				assert.NotEmpty(t, id)
				assert.NotRegexp(t, "^"+regexp.QuoteMeta(id), "resp_0123456789abcdef0123456789abcdef", "also aborts a response")
				select {
				case aborted := <-w.aborted:
					assert.JSONEq(t, `{"rid":"`+id+`"}`, aborted)
				case <-time.After(patience):
					t.Fatalf("%q is not aborted", id)
				}
			}
		})
	}
}

// idsOf returns SGLang's names for the requests of a body.
func idsOf(t *testing.T, body string) []string {
	t.Helper()
	var read struct{ RID, Text any }
	var members map[string]any
	require.NoError(t, json.Unmarshal([]byte(body), &members))
	read.RID, read.Text = members["rid"], members["text"]
	texts, batch := read.Text.([]any)
	switch rid := read.RID.(type) {
	case string:
		if !batch {
			return []string{rid}
		}
		ids := make([]string, len(texts))
		for i := range ids {
			ids[i] = rid + "_" + string(rune('0'+i))
		}
		return ids
	case []any:
		ids := make([]string, len(rid))
		for i := range ids {
			ids[i], _ = rid[i].(string)
		}
		return ids
	}
	t.Fatalf("the worker makes an id of its own of %q", body)
	return nil
}
