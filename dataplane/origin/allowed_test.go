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

// request is a request as it is on the wire.
func request(t *testing.T, lines ...string) *fasthttp.RequestCtx {
	t.Helper()
	ctx := &fasthttp.RequestCtx{}
	require.NoError(t, ctx.Request.Read(bufio.NewReader(strings.NewReader(strings.Join(lines, "\r\n")+"\r\n\r\n"))))
	return ctx
}

func TestAllowed(t *testing.T) {
	listed, err := origin.ParseAllowed([]string{"https://App.example/", "http://localhost:3000", "https://ops.example:443", "http://[::1]:80"})
	require.NoError(t, err)
	star, err := origin.ParseAllowed([]string{"*"})
	require.NoError(t, err)
	for from, allowed := range map[string]bool{
		"https://app.example": true, "http://localhost:3000": true, "https://ops.example": true, "http://[::1]": true,
		"http://app.example": false, "https://app.example:8443": false, "https://evil.example": false, "https://app.example.evil": false,
		"http://localhost": false, "null": false, "": false, "*": false, "https://": false,
	} {
		for a, want := range map[*origin.Allowed]string{listed: from, star: "*"} {
			ctx := request(t, "POST /v1/chat/completions HTTP/1.1", "Host: x", "Origin: "+from, "Content-Length: 0")
			ctx.Response.Header.Set("Access-Control-Allow-Origin", "*") // as a worker does
			ctx.Response.Header.Set("Access-Control-Allow-Credentials", "true")
			ctx.Response.Header.Set("Vary", "Accept-Encoding")
			a.Mark(ctx)
			h := &ctx.Response.Header
			if !allowed && a == listed || from == "" {
				want = ""
			}
			assert.Equal(t, want, string(h.Peek("Access-Control-Allow-Origin")), "%q %v", from, a)
			assert.Empty(t, h.Peek("Access-Control-Allow-Credentials"))
			assert.Equal(t, want != "", len(h.Peek("Access-Control-Expose-Headers")) > 0)
			assert.Equal(t, a == listed, strings.Contains(h.String(), "Vary: Origin"), "the answer depends on who asks")
			assert.Contains(t, h.String(), "Vary: Accept-Encoding")
			assert.Equal(t, want != "", a.Preflight(request(t, "OPTIONS / HTTP/1.1", "Host: x", "Origin: "+from, "Access-Control-Request-Method: POST")))
		}
	}
	assert.True(t, new(origin.Allowed).None())
	assert.True(t, (*origin.Allowed)(nil).None())
	assert.False(t, star.None())
}

func TestPreflight(t *testing.T) {
	a, err := origin.ParseAllowed([]string{"https://app.example"})
	require.NoError(t, err)
	ctx := request(t, "OPTIONS /v1/responses HTTP/1.1", "Host: x", "Origin: https://app.example", "Access-Control-Request-Method: DELETE",
		"Access-Control-Request-Headers: authorization,content-type,x-stainless-lang")
	require.True(t, origin.IsPreflight(ctx))
	require.True(t, a.Preflight(ctx))
	h := &ctx.Response.Header
	assert.Equal(t, 204, ctx.Response.StatusCode())
	assert.Equal(t, "DELETE", string(h.Peek("Access-Control-Allow-Methods")))
	assert.Equal(t, "authorization,content-type,x-stainless-lang", string(h.Peek("Access-Control-Allow-Headers")), "a star leaves out Authorization")
	assert.Equal(t, "3600", string(h.Peek("Access-Control-Max-Age")))
	assert.False(t, origin.IsPreflight(request(t, "OPTIONS / HTTP/1.1", "Host: x", "Origin: https://app.example")), "a health check")
}

func TestParseAllowedRefuses(t *testing.T) {
	for _, v := range []string{
		"", "app.example", "null", "https://", "ftp://app.example", "https://app.example/page", "https://app.example?x", "https://*.example", "https://u:p@app.example", "https://app example", "file:///x",
	} {
		_, err := origin.ParseAllowed([]string{"*", v})
		require.ErrorContains(t, err, "https://app.example", v)
	}
}
