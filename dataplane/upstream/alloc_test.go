//go:build !race

package upstream_test

import (
	"errors"
	"io"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/ingress/ingresstest"
	"github.com/warmpath/warmpath/dataplane/upstream"
)

func TestDoDoesNotAllocate(t *testing.T) {
	for name, answer := range map[string]string{"plain": plainAnswer, "sse": sseAnswer} {
		t.Run(name, func(t *testing.T) {
			w := startWorker(t, echo(answer))
			tr := newTransport(t, upstream.Config{})
			req, buf := chat(t, w.addr(), 300), make([]byte, 4096)
			var c upstream.Canceler
			do := func() {
				c.Reset()
				resp, err := tr.Do(&c, req)
				if err != nil {
					t.Fatal(err)
				}
				for err == nil {
					_, err = resp.Read(buf)
				}
				resp.Close()
				if !errors.Is(err, io.EOF) {
					t.Fatal(err)
				}
			}
			if n := testing.AllocsPerRun(200, do); n != 0 {
				t.Errorf("a request allocates %v times, want 0", n)
			}
		})
	}
}

// TestForwardDoesNotAllocate: a whole answer on its way through a Server.
func TestForwardDoesNotAllocate(t *testing.T) {
	w := startWorker(t, echo(plainAnswer))
	tr, req, ln := newTransport(t, upstream.Config{}), chat(t, w.addr(), 300), ingresstest.Listen(t)
	var lines []byte
	ingresstest.StartServer(t, ln, func(ctx *fasthttp.RequestCtx) {
		lines = upstream.AppendLines(lines[:0], &ctx.Request.Header, req.Extra)
		req.Lines = lines
		resp, err := tr.Do(nil, req)
		if err != nil {
			t.Error(err)
			return
		}
		upstream.Forward(ctx, resp, sink{}, time.Now())
		ctx.Response.Header.Set("X-Warmpath-Worker", "http://127.0.0.1:1")
	})
	c := dialRouter(t, ln.Addr().String())
	out, buf := append([]byte(chatHead), make([]byte, 300)...), make([]byte, 64<<10)
	once := func() {
		if _, err := c.Write(out); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(buf); err != nil {
			t.Fatal(err)
		}
	}
	for range 100 {
		once()
	}
	if n := testing.AllocsPerRun(500, once); n != 0 {
		t.Errorf("a request allocates %v times, want 0", n)
	}
}
