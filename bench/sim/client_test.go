package sim

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/dataplane/testkit"
)

// hold sends a request that is answered after the test's patience, if ever, and returns its
// client's end of the connection.
func hold(t *testing.T, w *Worker, id int, stream bool) (leave func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	body := generateBody(sequence(uint32(1000*id), 9), 1500, fmt.Sprintf(`,"rid":"held-%d","stream":%v`, id, stream))
	if w.Mode() != "" {
		body = strings.TrimSuffix(body, "}") + `,"bootstrap_host":"127.0.0.1","bootstrap_room":7}`
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.URL()+"/generate", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	left := make(chan struct{})
	go func() {
		defer close(left)
		if resp, err := http.DefaultClient.Do(req); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
	}()
	return func() { cancel(); <-left }
}

// TestClientLeaves: nothing but its closed connection ends a request, wherever it waits.
func TestClientLeaves(t *testing.T) {
	for _, stream := range []bool{false, true} {
		t.Run(fmt.Sprintf("stream=%v", stream), func(t *testing.T) {
			slow := fast()
			slow.MaxRunning, slow.Service.DecodeBase = 1, 100*time.Second // a token in 100 ms
			alone := fast()
			alone.Mode, alone.BootstrapTimeout = ModePrefill, 1e6*time.Second
			has := func(w *Worker, want Work) {
				t.Helper()
				testkit.AwaitThat(t, func() bool {
					got := w.Work()
					got.Pages = 0
					return got == want
				}, func() string { return fmt.Sprintf("%+v, want %+v", w.Work(), want) })
			}
			w := startWorker(t, slow)
			leave := hold(t, w, 1, stream)
			has(w, Work{Requests: 1, Running: 1})
			leaveQueue := hold(t, w, 2, stream)
			has(w, Work{Requests: 2, Running: 1, Queued: 1})
			leaveQueue()
			has(w, Work{Requests: 1, Running: 1})
			leave()
			has(w, Work{})
			fault(t, w, Fault{Kind: "stall"})
			leave = hold(t, w, 3, stream)
			has(w, Work{Requests: 1, Stalled: 1})
			leave()
			has(w, Work{})
			w = startWorker(t, alone)
			leave = hold(t, w, 4, stream)
			has(w, Work{Requests: 1, Legs: 1})
			leave()
			has(w, Work{})
			testkit.AwaitThat(t, func() bool { return w.Work() == Work{} }, func() string { return "pages are held" })
		})
	}
}
