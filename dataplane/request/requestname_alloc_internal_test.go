//go:build !race

package request

import (
	"testing"

	"github.com/valyala/fasthttp"
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
