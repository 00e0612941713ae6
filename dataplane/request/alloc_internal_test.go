//go:build !race

package request

import (
	"testing"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/routing"
)

// TestRequestNamesDoNotAllocate: neither those of clients nor the router's own.
func TestRequestNamesDoNotAllocate(t *testing.T) {
	serve := withName(func(*fasthttp.RequestCtx) {})
	for name, given := range map[string][]string{"made": nil, "taken": {"abc-123"}, "replaced": {"a", "b"}} {
		t.Run(name, func(t *testing.T) {
			ctx := &fasthttp.RequestCtx{}
			once := func() {
				ctx.Request.Header.Del(headerName)
				for _, g := range given {
					ctx.Request.Header.Add(headerName, g)
				}
				ctx.Response.Header.Del(headerName)
				serve(ctx)
			}
			once()
			if n := testing.AllocsPerRun(100, once); n != 0 {
				t.Errorf("a request's name allocates %v times, want 0", n)
			}
		})
	}
}

// TestSessionNamesDoNotAllocate includes the search for headers.
func TestSessionNamesDoNotAllocate(t *testing.T) {
	call, req := sessionRequest(t, `{"metadata":{"user_id":"{\"session_id\":\"b\"}"}}`, "Accept", "a", "X-Claude-Code-Session-Id", "b")
	var p routing.Prompt
	if n := testing.AllocsPerRun(100, func() { nameSession(&p, call, req) }); n != 0 {
		t.Errorf("nameSession allocates %v times, want 0", n)
	}
}
