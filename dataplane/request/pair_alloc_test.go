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
	streamed := []byte("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n" +
		strings.Repeat(chunkOf("data: {\"choices\":[{\"text\":\"\",\"delta\":{}}]}\n\n"), 64) + chunkOf("data: [DONE]\n\n") + "0\r\n\r\n")
	models, empty, generated := answer(`{"data":[{"id":"tiny"}]}`), answer("{}"), answer(reply)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = c.Close() }()
				for buf := make([]byte, 64<<10); ; {
					request := readRequest(c, buf)
					if len(request) == 0 {
						return
					}
					out := empty
					switch {
					case bytes.HasPrefix(request, []byte("POST /v1/chat/completions")) && bytes.Contains(request, []byte(`"stream":true`)):
						out = streamed
					case bytes.HasPrefix(request, []byte("POST /generate")), bytes.HasPrefix(request, []byte("POST /v1/chat/completions")):
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

func chunkOf(data string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(data), data) }

// readRequest reads a request with its body into buf; it is empty where the connection has ended.
func readRequest(c net.Conn, buf []byte) []byte {
	for n := 0; ; {
		m, err := c.Read(buf[n:])
		if err != nil {
			return nil
		}
		n += m
		head, body, ok := bytes.Cut(buf[:n], []byte("\r\n\r\n"))
		if !ok {
			continue
		}
		length := 0
		if i := bytes.Index(head, []byte("Content-Length: ")); i >= 0 {
			for _, digit := range head[i+len("Content-Length: "):] {
				if digit < '0' || digit > '9' {
					break
				}
				length = 10*length + int(digit-'0')
			}
		}
		if len(body) >= length {
			return buf[:n]
		}
	}
}

// repeat returns a client that sends one request again and again over one connection, without
// allocations.
func repeat(t *testing.T, h *harness, want string, fields ...string) (once func()) {
	t.Helper()
	return repeatAt(t, h, "/generate", pairRequest(false), want, fields...)
}

func repeatAt(t *testing.T, h *harness, path, body, want string, fields ...string) (once func()) {
	t.Helper()
	conn, err := net.Dial("tcp", h.addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	request := fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n%s", path, strings.Join(fields, ""), len(body), body)
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

// TestRequestsAllocateNothing: once pools are full, no kind of request allocates, but for the writer
// of chunks in fasthttp.
func TestRequestsAllocateNothing(t *testing.T) {
	rarely := withWorkers(func(c *worker.Config) { c.Interval = 5 * time.Second }) // a probe allocates
	h := start(t, []*fakeWorker{leanWorker(t, "null", decodeReply, nil), leanWorker(t, "null", decodeReply, nil)}, rarely)
	chat := func(n int, more string) string {
		return fmt.Sprintf(`{"model":"tiny","messages":[{"role":"user","content":"%s"}]%s}`, strings.Repeat("be brief. ", n/10), more)
	}
	ids := func(n int) string {
		return fmt.Sprintf(`{"input_ids":[%s7],"sampling_params":{"max_new_tokens":4}}`, strings.Repeat("1234,", n/5))
	}
	const chats = "/v1/chat/completions"
	for _, kind := range []struct {
		name, path, body, end string
		most                  float64
	}{
		{"chat of 300 B", chats, chat(300, ""), decodeReply, 0},
		{"chat of 8 KB", chats, chat(8<<10, ""), decodeReply, 0},
		{"ids of 300 B", "/generate", ids(300), decodeReply, 0},
		{"ids of 8 KB", "/generate", ids(8 << 10), decodeReply, 0},
		{"stream of 64 events", chats, chat(300, `,"stream":true`), "\r\n0\r\n\r\n", 1},
	} {
		once := repeatAt(t, h, kind.path, kind.body, kind.end)
		for _, exact := range []bool{false, true} {
			for _, rank := range h.registry.Snapshot().Ranks {
				rank.SetExact(exact)
			}
			for range 50 {
				once()
			}
			assert.LessOrEqual(t, testing.AllocsPerRun(200, once), kind.most, "%s, by events: %v", kind.name, exact)
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
	assert.Zero(t, one)
	assert.LessOrEqual(t, two, 2*one+4)
}
