//go:build !race

package request_test

import (
	"bytes"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/request"
)

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
			for _, rank := range h.Registry.Snapshot().Ranks {
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
