package upstream_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/upstream"
)

// upper is a Rewriter that changes letters, and holds back the text behind the last space.
type upper struct{ kept []byte }

func (u *upper) Append(dst, p []byte) []byte {
	u.kept = append(u.kept, p...)
	i := bytes.LastIndexByte(u.kept, ' ') + 1
	dst = append(dst, bytes.ToUpper(u.kept[:i])...)
	u.kept = u.kept[i:]
	return dst
}

func (u *upper) End(dst []byte) []byte { return append(dst, bytes.ToUpper(u.kept)...) }

// serveWith is a server whose answers forward makes.
func serveWith(t *testing.T, forward func(ctx *fasthttp.RequestCtx)) (url string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ended := make(chan error, 1)
	srv := &fasthttp.Server{Handler: forward}
	go func() { ended <- srv.Serve(ln) }()
	t.Cleanup(func() {
		_ = ln.Close()
		<-ended
	})
	return "http://" + ln.Addr().String()
}

// bodies are answers of each framing, whose body is "one two three".
var bodies = map[string]string{
	"fixed":   "HTTP/1.1 200 OK\r\nETag: \"x\"\r\nContent-Length: 13\r\n\r\none two three",
	"chunked": "HTTP/1.1 200 OK\r\nETag: \"x\"\r\nTransfer-Encoding: chunked\r\n\r\n6\r\none tw\r\n7\r\no three\r\n0\r\n\r\n",
	"to end":  "HTTP/1.1 200 OK\r\nETag: \"x\"\r\n\r\none two three",
}

// TestUnreadAndRewrite: bytes given back are forwarded as if nobody had looked at them, and the
// output of a Rewriter is too; the connection is used again where its framing allows.
func TestUnreadAndRewrite(t *testing.T) {
	for framing, raw := range bodies {
		for _, look := range []int{0, 1, 4, 13, 14} {
			for _, rewrite := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%d/rewrite=%v", framing, look, rewrite), func(t *testing.T) {
					w := startWorker(t, func(_ int, c *peer) {
						for _, _, ok := c.request(); ok; _, _, ok = c.request() {
							_, _ = io.WriteString(c, raw)
							if framing == "to end" {
								return
							}
						}
					})
					tr, obs := newTransport(t, upstream.Config{}), newRecorder()
					url := serveWith(t, func(ctx *fasthttp.RequestCtx) {
						resp, err := tr.Do(nil, &upstream.Request{Target: upstream.Target{Addr: w.addr()}, Method: []byte("GET"), Path: []byte("/")})
						if err != nil {
							ctx.Error(err.Error(), http.StatusBadGateway)
							return
						}
						seen, n := make([]byte, look), 0
						for n < look {
							var m int
							m, err = resp.Read(seen[n:])
							n += m
							if err != nil {
								break
							}
						}
						resp.Unread(seen[:n])
						if rewrite {
							upstream.ForwardRewrite(ctx, resp, obs, time.Now(), &upper{})
						} else {
							upstream.Forward(ctx, resp, obs, time.Now())
						}
					})
					client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
					resp, err := client.Get(url)
					require.NoError(t, err)
					got, err := io.ReadAll(resp.Body)
					_ = resp.Body.Close()
					require.NoError(t, err)
					require.NoError(t, <-obs.closed)
					want := "one two three"
					assert.Equal(t, want, string(obs.body))
					if rewrite {
						want = strings.ToUpper(want)
						assert.Empty(t, resp.Header.Get("ETag"))
					}
					assert.Equal(t, want, string(got))
					if framing != "to end" {
						assert.Equal(t, 1, tr.Idle(w.addr()))
					}
				})
			}
		}
	}
}
