//go:build !race

package request_test

import (
	"bytes"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/request"
)

// leanWorker answers without allocations, so that only the router's are counted. A decode
// worker answers once the prefill leg has ended, as an engine does: a canceled leg costs its
// connection.
func leanWorker(t *testing.T, mode, reply string, over *atomic.Pointer[worker.Rank]) *fakeWorker {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	answer := func(body string) []byte {
		return fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	}
	about := answer(fmt.Sprintf(`{"version":"0.5.23","served_model_name":"tiny","page_size":4,"dp_size":1,
		"disaggregation_mode":%q,"disaggregation_bootstrap_port":%s}`, mode, port))
	models, empty, generated := answer(`{"data":[{"id":"tiny"}]}`), answer("{}"), answer(reply)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = c.Close() }()
				for buf := make([]byte, 4<<10); ; {
					n, err := c.Read(buf)
					if err != nil {
						return
					}
					out := empty
					switch request := buf[:n]; {
					case bytes.HasPrefix(request, []byte("POST /generate")):
						for over != nil && over.Load().Load.InFlight() > 0 {
							time.Sleep(10 * time.Microsecond)
						}
						out = generated
					case bytes.HasPrefix(request, []byte("GET /server_info")):
						out = about
					case bytes.HasPrefix(request, []byte("GET /v1/models")):
						out = models
					}
					if _, err := c.Write(out); err != nil {
						return
					}
				}
			}()
		}
	}()
	t.Cleanup(func() { _ = l.Close() })
	return &fakeWorker{t: t, url: "http://" + l.Addr().String()}
}

// repeat returns a client that sends one request again and again over one connection, without
// allocations.
func repeat(t *testing.T, h *harness, want string, fields ...string) (once func()) {
	t.Helper()
	conn, err := net.Dial("tcp", h.addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	body := pairRequest(false)
	request := fmt.Appendf(nil, "POST /generate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n%s", strings.Join(fields, ""), len(body), body)
	buf, end := make([]byte, 8<<10), []byte(want)
	require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
	return func() {
		if _, err := conn.Write(request); err != nil {
			panic(err)
		}
		for n := 0; ; {
			m, err := conn.Read(buf[n:])
			if err != nil {
				panic(fmt.Sprintf("%v after %q", err, buf[:n]))
			}
			if n += m; bytes.HasSuffix(buf[:n], end) {
				return
			}
		}
	}
}

// TestKeysAllocateNothing: a request with a key that has every limit allocates no more than one without.
func TestKeysAllocateNothing(t *testing.T) {
	rarely := withWorkers(func(c *worker.Config) { c.Interval = 5 * time.Second })
	keys := keysOf(t, "alice models=tiny requests-per-minute=1000000 tokens-per-minute=100000000 concurrency=2 priority=3 deadline=1m")
	open := repeat(t, start(t, []*fakeWorker{leanWorker(t, "null", decodeReply, nil)}, rarely), decodeReply)
	keyed := repeat(t, start(t, []*fakeWorker{leanWorker(t, "null", decodeReply, nil)}, rarely, withKeys(keys), withConfig(func(c *request.Config) { c.SaltByKey = true })), decodeReply, "Authorization: Bearer secret-of-alice\r\n")
	for range 50 {
		open()
		keyed()
	}
	without, with := testing.AllocsPerRun(200, open), testing.AllocsPerRun(200, keyed)
	t.Logf("%v allocations without keys, %v with", without, with)
	assert.LessOrEqual(t, with, without)
}

// A request to a pair allocates no more than two requests to one worker each, but for a small
// constant: it is pooled like them.
func TestPairAllocates(t *testing.T) {
	rarely := withWorkers(func(c *worker.Config) { c.Interval = 5 * time.Second }) // a probe allocates
	var prefill atomic.Pointer[worker.Rank]
	alone := repeat(t, start(t, []*fakeWorker{leanWorker(t, "null", decodeReply, nil)}, rarely), decodeReply)
	h := start(t, []*fakeWorker{leanWorker(t, "prefill", prefillReply, nil), leanWorker(t, "decode", decodeReply, &prefill)}, rarely)
	for _, rank := range h.registry.Snapshot().Ranks {
		if rank.Worker.Role() == worker.RolePrefill {
			prefill.Store(rank)
		}
	}
	pair := repeat(t, h, decodeReply)
	for range 50 { // pools fill, maps grow
		alone()
		pair()
	}
	one, two := testing.AllocsPerRun(200, alone), testing.AllocsPerRun(200, pair)
	t.Logf("%v allocations alone, %v in a pair", one, two)
	assert.LessOrEqual(t, two, 2*one+4)
}
