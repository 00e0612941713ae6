//go:build !race || soak

package request_test

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// plainWorker answers as a worker does and, other than a fakeWorker, keeps nothing of its requests.
func plainWorker(rw http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	rw.Header().Set("Content-Type", "application/json")
	switch reply := idsReply; r.URL.Path {
	case "/server_info":
		_, _ = io.WriteString(rw, info(1))
	case "/v1/models":
		_, _ = io.WriteString(rw, `{"object":"list","data":[{"id":"tiny"}]}`)
	case "/generate":
		if strings.Contains(string(body), `"stream":true`) {
			rw.Header().Set("Content-Type", "text/event-stream")
			reply = "data: " + reply + "\n\ndata: [DONE]\n\n"
		}
		_, _ = io.WriteString(rw, reply)
	}
}

// leaver is a body whose client leaves in the midst of it.
type leaver struct{ leave context.CancelFunc }

func (l leaver) Read([]byte) (int, error) {
	l.leave()
	return 0, io.ErrUnexpectedEOF
}

// TestRequestsLeaveNothing: a request that is answered, refused or left by its client takes no
// memory once it has ended. What is kept of requests is bounded, and full after some thousands of
// the same.
func TestRequestsLeaveNothing(t *testing.T) {
	w := httptest.NewServer(http.HandlerFunc(plainWorker))
	t.Cleanup(w.Close)
	h := start(t, nil)
	_, err := h.Registry.Add(w.URL)
	require.NoError(t, err)
	h.AwaitReady(1)
	round := func() memory {
		for i := range requestsOfARound {
			switch i % 8 {
			case 0:
				resp, _ := h.Post("/generate", `{"sampling_params":`)
				require.Equal(t, http.StatusBadRequest, resp.StatusCode)
			case 1:
				ctx, leave := context.WithCancel(t.Context())
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.Base+"/generate", io.MultiReader(strings.NewReader(`{"text":`), leaver{leave}))
				require.NoError(t, err)
				_, err = h.Client.Do(req) //nolint:bodyclose // there is none
				require.Error(t, err)
			default:
				resp, got := h.Post("/generate", fmt.Sprintf(`{"rid":"%032d","text":"prompt %d","stream":%t}`, i%100, i%100, i%2 == 0))
				require.Equal(t, http.StatusOK, resp.StatusCode, got)
			}
		}
		h.AwaitIdle()
		return measured()
	}
	// A leak is there in every round, and what else this process does is not.
	least, before := int64(math.MaxInt64), round()
	for i := 0; i < 3 && least >= mostLeft; i++ {
		after := round()
		least, before = min(least, after.minus(before).heap), after
	}
	require.Less(t, least, int64(mostLeft), "bytes of %d requests are left", requestsOfARound)
}

// mostLeft is eight times what was measured: less than a small object for each request.
const requestsOfARound, mostLeft = 4000, 128 << 10
