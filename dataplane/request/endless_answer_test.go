//go:build !race || soak

package request_test

import (
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAnswersWithoutEnd: an answer that is one event or none, or small only while it is compressed,
// is passed on as it comes, without the memory for all of it.
func TestAnswersWithoutEnd(t *testing.T) {
	const size = 16 << 20
	const stream, document = "text/event-stream", "application/json"
	for name, tt := range map[string]struct{ path, body, kind, begin, more string }{
		"an event":         {"/generate", `{"text":"x","stream":true}`, stream, "data: ", "xxxxxxxx"},
		"a name of events": {"/v1/messages", messagesBody + `,"stream":true}`, stream, "event: ", "xxxxxxxx"},
		"empty lines":      {"/generate", `{"text":"x","stream":true}`, stream, "", "\n\n\n\n\n\n\n\n"},
		"comments":         {"/v1/responses", responsesBody + `,"stream":true}`, stream, "", ":\n\n:xx\n\n"},
		"a document":       {"/generate", `{"text":"x"}`, document, `{"text":"`, "xxxxxxxx"},
		"a gzip bomb":      {"/generate", `{"text":"x"}`, document, gzipped(t, strings.Repeat("\x00", size)), ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFakeWorker(t, info(1))
			want := len(tt.begin) + len(tt.more)*(size>>3)
			w.On(tt.path, func(rw http.ResponseWriter, _ *http.Request) {
				rw.Header().Set("Content-Type", tt.kind)
				if tt.more == "" {
					rw.Header().Set("Content-Encoding", "gzip")
				}
				_, _ = io.WriteString(rw, tt.begin)
				piece := strings.Repeat(tt.more, 8<<10)
				for range size >> 16 {
					_, _ = io.WriteString(rw, piece)
				}
			})
			h := start(t, []*fakeWorker{w})
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.Base+tt.path, strings.NewReader(tt.body))
			require.NoError(t, err)
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Accept-Encoding", "identity")
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			resp, err := h.Client.Do(req)
			require.NoError(t, err)
			defer resp.Body.Close()
			n, err := io.Copy(io.Discard, resp.Body)
			require.NoError(t, err)
			runtime.ReadMemStats(&after)
			require.GreaterOrEqual(t, n, int64(want)) // the router may end a stream with an error
			require.Less(t, n, int64(want+1<<10))
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(size))
		})
	}
}
