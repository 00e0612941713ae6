package upstream_test

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/upstream"
)

// BenchmarkIdleSavings is the whole path through a Watcher's listener with fasthttp's buffers kept by idle connections
// ("keeps") and given back ("gives"), which must not be slower.
func BenchmarkIdleSavings(b *testing.B) {
	whole := func(n int) string {
		return fmt.Sprintf("HTTP/1.1 200 OK\r\nserver: uvicorn\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s", n, strings.Repeat("x", n))
	}
	for _, answer := range []struct{ name, text, end string }{
		{"300", whole(300), "x"}, {"12000", whole(12000), "x"}, {"sse", sseAnswer, "0\r\n\r\n"},
	} {
		for _, mode := range []string{"keeps", "gives"} {
			b.Run(answer.name+"/"+mode, func(b *testing.B) {
				w := startWorker(b, echo(answer.text))
				tr := newTransport(b, upstream.Config{})
				srv := &fasthttp.Server{NoDefaultServerHeader: true, ReadBufferSize: 16 << 10, WriteBufferSize: 16 << 10, Handler: func(ctx *fasthttp.RequestCtx) {
					req := &upstream.Request{
						Target: upstream.Target{Addr: w.addr()}, Method: ctx.Method(), Path: ctx.RequestURI(),
						Header: &ctx.Request.Header, Body: [][]byte{ctx.Request.Body()},
					}
					resp, err := tr.Do(nil, req)
					if err != nil {
						ctx.Error(err.Error(), 502)
						return
					}
					upstream.Forward(ctx, resp, sink{})
				}}
				if mode == "gives" {
					srv.WriteBufferSize, srv.ReduceMemoryUsage = 4<<10, true
				}
				inner, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					b.Fatal(err)
				}
				ended := make(chan error, 1)
				go func() { ended <- srv.Serve(startWatcher(b).Listen(inner)) }()
				defer func() { inner.Close(); <-ended }()
				c, err := net.Dial("tcp", inner.Addr().String())
				if err != nil {
					b.Fatal(err)
				}
				defer c.Close()
				out, buf := append([]byte(chatHead), make([]byte, 300)...), make([]byte, 64<<10)
				want := 0
				b.ReportAllocs()
				for b.Loop() {
					c.Write(out)
					for n := 0; ; {
						m, err := c.Read(buf[n:])
						if err != nil {
							b.Fatal(err)
						}
						n += m
						if n >= want && strings.HasSuffix(string(buf[n-5:n]), answer.end) && (want > 0 || n > len(answer.text)-100) {
							want = n
							break
						}
					}
				}
			})
		}
	}
}
