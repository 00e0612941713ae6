package origin_test

import (
	"bufio"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/origin"
)

// check asks a guard about a request as it is on the wire.
func check(t *testing.T, g *origin.Guard, request string, lines ...string) error {
	t.Helper()
	ctx := &fasthttp.RequestCtx{}
	raw := request + " HTTP/1.1\r\n" + strings.Join(lines, "\r\n") + "\r\n\r\n"
	require.NoError(t, ctx.Request.Read(bufio.NewReader(strings.NewReader(raw))))
	return g.Check(ctx)
}

func TestHosts(t *testing.T) {
	g := &origin.Guard{Hosts: []string{"ops.example", "other.example:8001", "10.0.0.7"}}
	for host, known := range map[string]bool{
		"localhost": true, "LOCALHOST:8001": true, "localhost.:8001": true, "a.localhost:1": true, "127.0.0.1:8001": true, "127.8.9.10": true,
		"[::1]:8001": true, "[::1]": true, "[::ffff:127.0.0.1]:8001": true,
		"ops.example": true, "Ops.Example:9": true, "other.example:8001": true, "10.0.0.7:8001": true,
		"other.example": false, "other.example:8002": false, "evil.example": false, "evil.example:8001": false, "localhost.evil.example": false,
		"notlocalhost": false, "127.0.0.1.evil.example": false, "10.0.0.8": false, "169.254.169.254": false, "0.0.0.0:8001": false,
	} {
		err := check(t, g, "GET /status", "Host: "+host)
		if known {
			assert.NoError(t, err, host)
			continue
		}
		require.ErrorIs(t, err, origin.ErrHost, host)
		assert.Equal(t, 403, origin.Status(err))
		assert.ErrorContains(t, err, "--operator-host")
		assert.NoError(t, check(t, &origin.Guard{AnyHost: true}, "GET /status", "Host: "+host), host)
	}
	require.ErrorIs(t, check(t, g, "GET http://evil.example/status", "Host: localhost"), origin.ErrHost, "the target counts where it has a host")
}

func TestOrigins(t *testing.T) {
	const host = "Host: 127.0.0.1:8001"
	for _, tt := range []struct {
		request string
		lines   []string
		good    bool
	}{
		{"POST /workers", nil, true},
		{"POST /workers", []string{"Origin: http://127.0.0.1:8001"}, true},
		{"POST /workers", []string{"Origin: HTTP://127.0.0.1:8001", "Sec-Fetch-Site: same-origin"}, true},
		{"POST /workers", []string{"Origin: https://ops.example"}, true},
		{"GET /status", []string{"Sec-Fetch-Site: none"}, true},
		{"GET /console", []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"}, true},
		{"POST /workers", []string{"Origin: http://evil.example"}, false},
		{"POST /workers", []string{"Origin: http://127.0.0.1:8002"}, false},
		{"POST /workers", []string{"Origin: http://127.0.0.1"}, false},
		{"POST /workers", []string{"Origin: http://localhost:8001"}, false},
		{"POST /workers", []string{"Origin: null"}, false},
		{"POST /workers", []string{"Origin: "}, false},
		{"POST /workers", []string{"Origin: file://"}, false},
		{"POST /workers", []string{"Origin: 127.0.0.1:8001"}, false},
		{"POST /workers", []string{"Origin: http://ops.example:81"}, false},
		{"POST /workers", []string{"Origin: http://127.0.0.1:8001", "Origin: http://evil.example"}, false},
		{"POST /workers", []string{"Origin: http://127.0.0.1:8001", "Sec-Fetch-Site: cross-site"}, false},
		{"POST /workers", []string{"Sec-Fetch-Site: same-site"}, false},
		{"POST /workers", []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"}, false},
		{"GET /status", []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: image"}, false},
		{"GET /console", []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe"}, false},
		{"GET /status", []string{"Origin: http://evil.example"}, false},
		{"GET /status", []string{"Connection: Upgrade", "Upgrade: websocket", "Origin: http://evil.example"}, false},
		{"GET /status", []string{"Accept: text/event-stream", "Origin: http://evil.example"}, false},
	} {
		g := &origin.Guard{Hosts: []string{"ops.example"}}
		err := check(t, g, tt.request, append([]string{host}, tt.lines...)...)
		if tt.good {
			assert.NoError(t, err, tt)
			continue
		}
		if assert.ErrorIs(t, err, origin.ErrOrigin, tt) {
			assert.Equal(t, 403, origin.Status(err))
		}
	}
	g := &origin.Guard{}
	assert.NoError(t, check(t, g, "GET /status", "Host: localhost:80", "Origin: http://localhost"))
	assert.NoError(t, check(t, g, "GET /status", "Host: [::1]", "Origin: http://[::1]:80"))
}

func TestTypes(t *testing.T) {
	body := []string{"Host: localhost", "Content-Length: 0"}
	for kind, good := range map[string]bool{
		"application/json": true, "Application/JSON; charset=utf-8": true, "": true,
		"text/plain": false, "application/x-www-form-urlencoded": false, "multipart/form-data; boundary=x": false, "text/plain; application/json": false,
		"application/jsonp": false, "json": false,
	} {
		for _, method := range []string{"POST", "PUT", "DELETE", "PATCH"} {
			err := check(t, &origin.Guard{}, method+" /workers", append(body, "Content-Type: "+kind)...)
			if good {
				assert.NoError(t, err, kind)
				continue
			}
			if assert.ErrorIs(t, err, origin.ErrType, kind) {
				assert.Equal(t, 415, origin.Status(err))
				assert.ErrorContains(t, err, "-H 'Content-Type: application/json'")
			}
		}
		assert.NoError(t, check(t, &origin.Guard{}, "GET /workers", "Host: localhost", "Content-Type: "+kind))
	}
	ctx := &fasthttp.RequestCtx{}
	raw := "POST /workers HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}"
	require.NoError(t, ctx.Request.Read(bufio.NewReader(strings.NewReader(raw))))
	require.NoError(t, (&origin.Guard{}).Check(ctx), "a body without a type")
}
