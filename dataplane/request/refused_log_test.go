package request_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/request"
	"github.com/warmpath/warmpath/dataplane/request/accesslog"
)

// withAccessLog gives a router an access log. lines ends it and returns its lines.
func withAccessLog(t *testing.T) (o option, lines func() []map[string]any) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "access.jsonl")
	log, err := accesslog.Open(file, func(err error) { t.Error(err) })
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(stop)
	var wg sync.WaitGroup
	wg.Go(func() { _ = log.Run(ctx) })
	return withParts(func(p *request.Parts) { p.AccessLog = log }), func() (all []map[string]any) {
		stop()
		wg.Wait()
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		assert.NotContains(t, string(text), "secret")
		for line := range strings.Lines(string(text)) {
			var fields map[string]any
			require.NoError(t, json.Unmarshal([]byte(line), &fields), line)
			all = append(all, fields)
		}
		return all
	}
}

// byName returns lines by the names of their requests, each of which has one.
func byName(t *testing.T, lines []map[string]any) map[string]map[string]any {
	t.Helper()
	all := map[string]map[string]any{}
	for _, fields := range lines {
		name, _ := fields["request_id"].(string)
		require.NotContains(t, all, name, "two lines of one request")
		all[name] = fields
	}
	return all
}

// sendRaw sends a request as it is and returns the status and the name of its answer.
func sendRaw(t *testing.T, base, raw string) (status int, name string) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	_, err = io.WriteString(conn, raw)
	require.NoError(t, err)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	_ = resp.Body.Close()
	return resp.StatusCode, resp.Header.Get("X-Request-Id")
}

// TestRefusalsAreLogged: each request that the router refuses has a line with the client, the name of its key and the reason, and is
// counted by that reason.
func TestRefusalsAreLogged(t *testing.T) {
	t.Parallel()
	access, lines := withAccessLog(t)
	w, _ := headWorker(t)
	h := start(t, []*fakeWorker{w}, access, withConfig(func(c *request.Config) { c.MaxBodyBytes = 1000 }),
		withKeys(keysOf(t, "alice", "bob models=none", "few requests-per-minute=1", "short tokens-per-minute=10", "one concurrency=1")))
	type refusal struct {
		head, key, body, reason string
		status                  int
	}
	var want []refusal
	for _, c := range []refusal{
		{"POST /generate", "", `{}`, "no_key", 401},
		{"POST /generate", "nobody", `{}`, "unknown_key", 401},
		{"GET /v1/models", "nobody", ``, "unknown_key", 401},
		{"POST /generate", "bob", `{"model":"tiny","text":"x"}`, "permission_denied", 403},
		{"GET /v1/models/tiny", "bob", ``, "permission_denied", 403},
		{"GET /server_info", "alice", ``, "not_for_clients", 403},
		{"POST /generate", "few", `{"text":"x"}`, "", 200},
		{"POST /generate", "few", `{"text":"x"}`, "requests", 429},
		{"GET /v1/models/tiny", "few", ``, "requests", 429},
		{"POST /generate", "short", `{"text":"` + strings.Repeat("word ", 60) + `"}`, "", 200},
		{"POST /generate", "short", `{"text":"x"}`, "tokens", 429},
		{"POST /generate", "alice", `no JSON`, "invalid_json", 400},
		{"POST /generate", "alice", `{"model":"none","text":"x"}`, "model_not_found", 404},
		{"POST /generate", "alice", strings.Repeat("x", 2000), "request_too_large", 413},
		{"POST /abort_request", "alice", `{}`, "invalid_request_error", 400},
		{"GET /no/such/path?q=secret", "alice", ``, "not_found", 404},
		{"GET /generate", "alice", ``, "method_not_allowed", 405},
		{"PUT /health", "", ``, "method_not_allowed", 405},
		{"GET /a/../b", "alice", ``, "invalid_request_error", 400},
		{"POST /generate HTTP/1.1\r\nExpect: 100-continue\r\nX: y", "", `{}`, "no_key", 401},
		{"POST /generate HTTP/1.1\r\nExpect: something", "alice", `{}`, "expectation_failed", 417},
		{"POST /generate HTTP/1.1\r\nX: " + strings.Repeat("x", 64<<10), "alice", `{}`, "header_too_large", 431},
		{"GET /generate HTTP/2.0", "", ``, "http_version_not_supported", 505},
	} {
		head := c.head
		if !strings.Contains(head, " HTTP/") {
			head += " HTTP/1.1"
		}
		if c.key != "" {
			head += "\r\nAuthorization: Bearer secret-of-" + c.key
		}
		status, name := sendRaw(t, h.Base, fmt.Sprintf("%s\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", head, len(c.body), c.body))
		require.Equal(t, c.status, status, "%.60s of %q", c.head, c.key)
		c.head = name
		want = append(want, c)
	}
	h.AwaitIdle()
	metrics := h.Metrics()
	got := byName(t, lines())
	for i, c := range want {
		if c.status == http.StatusOK {
			continue
		}
		line := got[c.head]
		if !assert.NotNil(t, line, "%d: no line of %d for %s", i, c.status, c.reason) {
			continue
		}
		assert.EqualValues(t, c.status, line["status"], "%d", i)
		assert.Equal(t, c.reason, line["refused"], "%d", i)
		series := fmt.Sprintf(`warmpath_errors_total{reason="%s",status="%d"}`, c.reason, c.status)
		assert.True(t, strings.Contains(metrics, series), series)
		if c.status >= 417 && c.reason != "requests" && c.reason != "tokens" {
			continue // a head that was not read to its end may have no address and no key
		}
		assert.Equal(t, "127.0.0.1", line["client"], "%d", i)
		if c.key != "nobody" && c.key != "" {
			assert.Equal(t, c.key, line["key"], "%d", i)
		} else {
			assert.NotContains(t, line, "key", "%d", i)
		}
		assert.NotEmpty(t, line["path"], "%d", i)
	}
	assert.Regexp(t, `warmpath_client_key_refused_total\{key="bob",limit="model"\} 2`, regexp.MustCompile(`.*key="bob".*`).FindAllString(metrics, -1))
}
