package request_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/request"
)

func withQueue(q request.QueueConfig) option {
	q.Timeout = 16 * time.Hour // nobody is overdue
	return func(s *settings) { s.Request.Queue = q }
}

func withDrain(d time.Duration) option {
	return func(s *settings) { s.Request.DrainTimeout = d }
}

// busyWorker answers /generate one by one, when the test says so, and sends the begun requests
// to a channel.
func busyWorker(t *testing.T) (w *fakeWorker, began chan string, finish chan struct{}) {
	t.Helper()
	w = newFakeWorker(t, info(1))
	began, finish = make(chan string, 100), make(chan struct{})
	w.On("/generate", func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		began <- string(body)
		select {
		case <-finish:
			_, _ = io.WriteString(rw, `{"text":"done","meta_info":{"prompt_tokens":1,"cached_tokens":0}}`)
		case <-r.Context().Done():
		}
	})
	return w, began, finish
}

func (h *harness) awaitWaiting(n int) {
	h.t.Helper()
	require.Eventually(h.t, func() bool { return h.Admin.Status().Queue.Waiting == n }, patience, tick, "%d requests do not wait", n)
}

// send posts in the background and returns the status, 0 for none.
func (h *harness) send(ctx context.Context, wg *sync.WaitGroup, body string, header ...string) *int {
	status := new(int)
	wg.Go(func() {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.Base+"/generate", strings.NewReader(body))
		if err != nil {
			return
		}
		for i := 0; i+1 < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		if resp, err := h.Client.Do(req); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			*status = resp.StatusCode
		}
	})
	return status
}

func TestQueueOrder(t *testing.T) {
	w, began, finish := busyWorker(t)
	h := start(t, []*fakeWorker{w}, withQueue(request.QueueConfig{MaxInFlight: 1}), withConfig(func(c *request.Config) { c.TrustPriority = true }))
	var wg sync.WaitGroup
	h.send(t.Context(), &wg, `{"text":"first"}`)
	require.Contains(t, <-began, "first")
	for i, body := range []string{`{"text":"late"}`, `{"text":"low","priority":-1}`, `{"text":"high","priority":7}`, `{"text":"middle","priority":3}`} {
		h.send(t.Context(), &wg, body)
		h.awaitWaiting(i + 1)
	}
	for _, want := range []string{"high", "middle", "low", "late"} { // a request without a priority comes last, as in SGLang
		finish <- struct{}{}
		require.Contains(t, <-began, want)
	}
	finish <- struct{}{}
	wg.Wait()
	st := h.Admin.Status().Queue
	require.Equal(t, uint64(4), st.Passed)
	require.Zero(t, st.Waiting)
}

// addressed returns a client with a local address.
func addressed(t *testing.T, h *harness, addr string) *http.Client {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(addr)}}
	transport := h.Client.Transport.(*http.Transport).Clone()
	transport.DialContext = dialer.DialContext
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// TestQueueSharesTurns among clients by their keys, else by their addresses. A sender that changes its headers or its user is one
// client, but for X-Forwarded-For of a proxy that is trusted.
func TestQueueSharesTurns(t *testing.T) {
	const flood, other = "127.0.0.2", "127.0.0.3"
	trusted, err := worker.ParseNetworks([]string{flood, "192.0.2.0/24"})
	require.NoError(t, err)
	proxied := func(chain string) []string { return []string{"X-Forwarded-For", chain} }
	for name, c := range map[string]struct {
		options []option
		floods  [3][]string // headers of one client's requests
		from    string      // address of the other one
		header  []string    // of the other one
	}{
		"addresses": {
			floods: [3][]string{{"Authorization", "Bearer a"}, {"X-Api-Key", "b"}, proxied("198.51.100.1")}, from: other,
		},
		"keys": {
			options: []option{withKeys(keysOf(t, "a", "b"))}, floods: [3][]string{by("a"), {"X-Api-Key", "secret-of-a"}, append(by("a"), proxied("198.51.100.1")...)}, from: flood, header: by("b"),
		},
		"trusted proxies": {
			options: []option{withConfig(func(c *request.Config) { c.Proxies = trusted })},
			floods:  [3][]string{proxied("198.51.100.1"), proxied("203.0.113.7, 198.51.100.1"), proxied("nonsense,198.51.100.1:1234 , 192.0.2.9,127.0.0.2")},
			from:    flood, header: proxied("198.51.100.1, 198.51.100.2"),
		},
		"an IPv6 network": {
			options: []option{withConfig(func(c *request.Config) { c.Proxies = trusted })},
			floods:  [3][]string{proxied("2001:db8::1"), proxied("2001:db8::2"), proxied("[2001:db8::3]:80")}, from: flood, header: proxied("2001:db8:0:1::1"),
		},
		"no header of a trusted proxy": {
			options: []option{withConfig(func(c *request.Config) { c.Proxies = trusted })},
			floods:  [3][]string{nil, proxied(""), proxied("198.51.100.1, unknown")}, from: flood, header: proxied("unknown, 198.51.100.1"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, began, finish := busyWorker(t)
			h := start(t, []*fakeWorker{w}, append(c.options, withQueue(request.QueueConfig{MaxInFlight: 1}))...)
			var wg sync.WaitGroup
			n := 0
			send := func(addr, body string, header []string) {
				h.Client = addressed(t, h, addr)
				h.send(t.Context(), &wg, body, header...)
				if n++; n == 1 {
					<-began
				} else {
					h.awaitWaiting(n - 1)
				}
			}
			send(other, `{"text":"first"}`, c.header)
			long := strings.Repeat("words ", 20_000) // 30,000 tokens: a client has its turn's credit for one
			for i, header := range c.floods {
				send(flood, fmt.Sprintf(`{"user":"%d","text":"flood %s"}`, i, long), header)
			}
			send(c.from, `{"text":"the other one"}`, c.header)
			for _, want := range []string{"flood", "the other one", "flood", "flood"} {
				finish <- struct{}{}
				require.Contains(t, <-began, want)
			}
			finish <- struct{}{}
			wg.Wait()
		})
	}
}

// TestQueueDoesNotBelievePriorities of clients without a key, unless a setting trusts them. The worker hears none, either.
func TestQueueDoesNotBelievePriorities(t *testing.T) {
	for name, believed := range map[string]bool{"not trusted": false, "trusted": true} {
		t.Run(name, func(t *testing.T) {
			w, began, finish := busyWorker(t)
			h := start(t, []*fakeWorker{w}, withQueue(request.QueueConfig{MaxInFlight: 1}), withConfig(func(c *request.Config) { c.TrustPriority = believed }))
			var wg sync.WaitGroup
			h.send(t.Context(), &wg, `{"text":"first"}`)
			<-began
			for i, body := range []string{`{"text":"modest"}`, `{"text":"pushy","prior\u0069ty":9}`} {
				h.send(t.Context(), &wg, body, "X-Override-Priority", "9")
				h.awaitWaiting(i + 1)
			}
			order, heard := []string{"modest", "pushy"}, "null"
			if believed {
				order, heard = []string{"pushy", "modest"}, "9"
			}
			for _, want := range order {
				finish <- struct{}{}
				body := <-began
				require.Contains(t, body, want)
				if want == "pushy" {
					require.Equal(t, heard, lastPriority(body))
				} else {
					require.Empty(t, lastPriority(body))
				}
			}
			finish <- struct{}{}
			wg.Wait()
		})
	}
}

func TestQueueForgetsClientsThatLeave(t *testing.T) {
	w, began, finish := busyWorker(t)
	h := start(t, []*fakeWorker{w}, withQueue(request.QueueConfig{MaxInFlight: 1}))
	var wg sync.WaitGroup
	h.send(t.Context(), &wg, `{"text":"first"}`)
	<-began
	ctx, leave := context.WithCancel(t.Context())
	h.send(ctx, &wg, `{"text":"leaves"}`)
	h.awaitWaiting(1)
	leave()
	h.awaitWaiting(0)
	h.send(t.Context(), &wg, `{"text":"stays"}`)
	h.awaitWaiting(1)
	finish <- struct{}{}
	require.Contains(t, <-began, "stays")
	finish <- struct{}{}
	wg.Wait()
	require.Equal(t, uint64(1), h.Admin.Status().Queue.Gone)
}

// TestQueueDeadlines: a client that names a deadline waits until then, and others for the default
// time.
func TestQueueDeadlines(t *testing.T) {
	w, began, finish := busyWorker(t)
	h := start(t, []*fakeWorker{w}, func(s *settings) {
		s.Request.Queue = request.QueueConfig{MaxInFlight: 1, Timeout: 20 * time.Millisecond}
	})
	var wg sync.WaitGroup
	first := h.send(t.Context(), &wg, `{"text":"first"}`)
	<-began
	patient := h.send(t.Context(), &wg, `{"text":"patient"}`, "X-Warmpath-Deadline", "1e9")
	h.awaitWaiting(1)
	for _, header := range [][]string{nil, {"X-Warmpath-Deadline", "0.01"}} {
		resp, body := h.Do(http.MethodPost, h.Base+"/generate", `{"text":"hasty"}`, header...)
		require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
		require.NotEmpty(t, resp.Header.Get("Retry-After"))
		require.Regexp(t, `"reason":"(deadline|predicted)"`, body) // the latter where this machine is slow
	}
	for _, bad := range []string{"soon", "0", "-1", "NaN", "10s"} {
		resp, body := h.Do(http.MethodPost, h.Base+"/generate", `{"text":"unclear"}`, "X-Warmpath-Deadline", bad)
		require.Equal(t, http.StatusBadRequest, resp.StatusCode, bad)
		require.Contains(t, body, "X-Warmpath-Deadline")
	}
	finish <- struct{}{}
	require.Contains(t, <-began, "patient")
	finish <- struct{}{}
	wg.Wait()
	require.Equal(t, []int{200, 200}, []int{*first, *patient})
}

func TestQueueDrains(t *testing.T) {
	w, began, finish := busyWorker(t)
	h := start(t, []*fakeWorker{w}, withQueue(request.QueueConfig{MaxInFlight: 1}), withDrain(time.Minute))
	var wg sync.WaitGroup
	first := h.send(t.Context(), &wg, `{"text":"first"}`)
	<-began
	second := h.send(t.Context(), &wg, `{"text":"second"}`)
	h.awaitWaiting(1)
	stopped := make(chan struct{})
	go func() { defer close(stopped); h.Stop() }()
	require.Eventually(t, func() bool { return h.Admin.Status().Draining }, patience, tick)
	finish <- struct{}{}
	require.Contains(t, <-began, "second", "who waits at shutdown is served")
	finish <- struct{}{}
	wg.Wait()
	<-stopped
	require.Equal(t, []int{200, 200}, []int{*first, *second})
}

func TestQueueEndsWithTheDrain(t *testing.T) {
	w, began, finish := busyWorker(t)
	h := start(t, []*fakeWorker{w}, withQueue(request.QueueConfig{MaxInFlight: 1}), withDrain(50*time.Millisecond))
	var wg sync.WaitGroup
	h.send(t.Context(), &wg, `{"text":"first"}`)
	<-began
	second := h.send(t.Context(), &wg, `{"text":"second"}`)
	h.awaitWaiting(1)
	h.Stop() // returns although the worker never answers
	close(finish)
	wg.Wait()
	require.NotEqual(t, 200, *second)
}

func TestQueueOff(t *testing.T) {
	w, began, finish := busyWorker(t)
	h := start(t, []*fakeWorker{w}, withQueue(request.QueueConfig{MaxInFlight: 1, Max: -1}))
	var wg sync.WaitGroup
	for range 3 {
		h.send(t.Context(), &wg, `{"text":"all at once"}`)
	}
	for range 3 {
		<-began
	}
	close(finish)
	wg.Wait()
	require.Nil(t, h.Admin.Status().Queue)
}

// TestQueueSurvivesWorkersThatDie: requests wait for a worker that goes away; they get an
// error, and no load stays.
func TestQueueSurvivesWorkersThatDie(t *testing.T) {
	t.Parallel()
	w, began, _ := busyWorker(t)
	h := start(t, []*fakeWorker{w}, withQueue(request.QueueConfig{MaxInFlight: 1}))
	var wg sync.WaitGroup
	h.send(t.Context(), &wg, `{"text":"first"}`)
	<-began
	second := h.send(t.Context(), &wg, `{"text":"second"}`)
	h.awaitWaiting(1)
	require.NoError(t, w.Close())
	wg.Wait()
	require.GreaterOrEqual(t, *second, 500, "its worker is gone")
	require.Zero(t, h.Admin.Status().Queue.Waiting)
}

// TestQueueAnswersOnce: a request that has waited gets one answer, and the next one on its
// connection gets its own.
func TestQueueAnswersOnce(t *testing.T) {
	w, began, finish := busyWorker(t)
	h := start(t, []*fakeWorker{w}, withQueue(request.QueueConfig{MaxInFlight: 1}))
	var wg sync.WaitGroup
	defer wg.Wait()
	first := h.send(t.Context(), &wg, `{"input_ids":[1]}`)
	<-began
	conn, err := net.Dial("tcp", strings.TrimPrefix(h.Base, "http://"))
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	br := bufio.NewReader(conn)
	for turn := range 3 {
		_, err = io.WriteString(conn, "POST /generate HTTP/1.1\r\nHost: x\r\nContent-Length: 17\r\n\r\n{\"input_ids\":[2]}")
		require.NoError(t, err)
		if turn == 0 {
			h.awaitWaiting(1)
			finish <- struct{}{}
		}
		<-began
		finish <- struct{}{}
		resp, err := http.ReadResponse(br, nil)
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Contains(t, string(body), `"done"`, "turn %d", turn)
		require.Zero(t, br.Buffered(), "something follows the answer")
	}
	wg.Wait()
	require.Equal(t, http.StatusOK, *first)
}
