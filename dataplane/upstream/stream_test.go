package upstream_test

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/ingress/ingresstest"
	"github.com/warmpath/warmpath/dataplane/tlsconfig/tlstest"
	"github.com/warmpath/warmpath/dataplane/upstream"
)

// recorder is an Observer that keeps all calls.
type recorder struct {
	body   []byte
	tail   []byte
	broken error
	closed chan error
}

func newRecorder() *recorder { return &recorder{closed: make(chan error, 4)} }

func (o *recorder) Body(p []byte)           { o.body = append(o.body, p...) }
func (o *recorder) Broken(err error) []byte { o.broken = err; return o.tail }

func (o *recorder) Ended() []byte    { return nil }
func (o *recorder) Closed(err error) { o.closed <- err }

// startRouter is a server that forwards all requests to one worker.
func startRouter(t testing.TB, worker string, obs upstream.Observer) (addr string) {
	t.Helper()
	tr := newTransport(t, upstream.Config{})
	ln := ingresstest.Listen(t)
	ingresstest.StartServer(t, ln, func(ctx *fasthttp.RequestCtx) {
		req := &upstream.Request{
			Target: target(worker), Method: ctx.Method(), Path: ctx.RequestURI(),
			Lines: upstream.AppendLines(nil, &ctx.Request.Header, nil), Body: [][]byte{ctx.Request.Body()},
		}
		resp, err := tr.Do(nil, req)
		if err != nil {
			ctx.Error(err.Error(), 502)
			return
		}
		upstream.Forward(ctx, resp, obs, time.Now())
	})
	return ln.Addr().String()
}

// client is a connection to the router.
type client struct {
	net.Conn // with TLS where the test has it
	tcp      *net.TCPConn
	br       *bufio.Reader
}

func dialRouter(t testing.TB, addr string) *client {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	cl := &client{Conn: c, tcp: c.(*net.TCPConn)}
	if tlstest.Encrypted(t) {
		cl.Conn = tls.Client(c, tlstest.Client(t))
	}
	cl.br = bufio.NewReader(cl.Conn)
	return cl
}

func (c *client) ask(t testing.TB, method string) *http.Response {
	t.Helper()
	io.WriteString(c, method+" / HTTP/1.1\r\nHost: r\r\nContent-Length: 2\r\n\r\n{}")
	resp, err := http.ReadResponse(c.br, &http.Request{Method: method})
	if err != nil {
		t.Fatalf("answer: %v", err)
	}
	return resp
}

// TestStreamForwardsAtOnce: each step of the worker waits until the client has seen the one
// before it.
func TestStreamForwardsAtOnce(t *testing.T) { tlstest.OverBoth(t, testStreamForwardsAtOnce) }

func testStreamForwardsAtOnce(t *testing.T) {
	tests := []struct {
		name   string
		head   string
		pieces []string // as sent by the worker
		want   []string // as seen by the client
		end    string
	}{
		{
			"chunked", "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n",
			[]string{"9\r\ndata: 1\n\n\r\n", "9\r\ndata: 2\n\n\r\n9\r\ndata: 3\n\n\r\n", "4\r\nda"},
			[]string{"data: 1\n\n", "data: 2\n\ndata: 3\n\n", "da"},
			"ta\r\n0\r\n\r\n",
		},
		{"fixed size", "HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n", []string{"one ", "two "}, []string{"one ", "two "}, "last"},
		{"to the end", "HTTP/1.0 200 OK\r\n\r\n", []string{"one ", "two "}, []string{"one ", "two "}, "last"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			next := make(chan struct{})
			w := startWorker(t, func(_ int, p *peer) {
				p.request()
				p.send(tt.head)
				for _, piece := range tt.pieces {
					<-next
					p.send(piece)
				}
				<-next
				p.send(tt.end)
			})
			obs := newRecorder()
			c := dialRouter(t, startRouter(t, w.addr(), obs))
			ingresstest.Within(t, "stream", func() {
				resp := c.ask(t, "POST") // The header is here before the worker sends a byte of the body.
				for _, want := range tt.want {
					next <- struct{}{}
					got := make([]byte, len(want))
					if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != want {
						t.Fatalf("piece = %q %v, want %q", got, err, want)
					}
				}
				next <- struct{}{}
				if b, err := io.ReadAll(resp.Body); err != nil || !strings.HasPrefix(tt.end, string(b)) {
					t.Errorf("end = %q %v", b, err)
				}
				wantErr(t, "Closed", <-obs.closed, nil)
			})
			if string(obs.body[:len(tt.want[0])]) != tt.want[0] {
				t.Errorf("observer got %q", obs.body)
			}
			if len(obs.closed) != 0 {
				t.Error("Closed was called twice")
			}
		})
	}
}

// TestStreamBreaks: the worker dies in the middle of its answer.
func TestStreamBreaks(t *testing.T) { tlstest.OverBoth(t, testStreamBreaks) }

func testStreamBreaks(t *testing.T) {
	const event = "data: {\"error\":1}\n\n"
	tests := []struct {
		name, answer, tail string
		body               string
		clean              bool // the client sees a proper end
	}{
		{"chunked, cut", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", "", "hello", false},
		{"chunked, with an error event", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", event, "hello" + event, true},
		{"fixed size, no event", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello", event, "hello", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := startWorker(t, func(_ int, p *peer) {
				p.request()
				p.send(tt.answer)
			})
			obs := newRecorder()
			if tt.tail != "" {
				obs.tail = []byte(tt.tail)
			}
			c := dialRouter(t, startRouter(t, w.addr(), obs))
			resp := c.ask(t, "POST")
			b, err := io.ReadAll(resp.Body)
			if string(b) != tt.body || (err == nil) != tt.clean {
				t.Errorf("client got %q %v, want %q, clean %v", b, err, tt.body, tt.clean)
			}
			wantErr(t, "Closed", <-obs.closed, upstream.ErrTruncated)
		})
	}
}

// TestStreamClientLeaves: the worker streams on until it notices; Closed names the client.
func TestStreamClientLeaves(t *testing.T) { tlstest.OverBoth(t, testStreamClientLeaves) }

func testStreamClientLeaves(t *testing.T) {
	for _, head := range []string{"Transfer-Encoding: chunked\r\n", "Content-Length: 1000000000\r\n"} {
		t.Run(head[:7], func(t *testing.T) {
			ended := make(chan struct{})
			w := startWorker(t, func(_ int, p *peer) {
				defer close(ended)
				p.request()
				p.send("HTTP/1.1 200 OK\r\n" + head + "\r\n")
				piece := "400\r\n" + strings.Repeat("x", 1024) + "\r\n"
				for {
					if _, err := io.WriteString(p.Conn, piece); err != nil {
						return
					}
				}
			})
			obs := newRecorder()
			c := dialRouter(t, startRouter(t, w.addr(), obs))
			resp := c.ask(t, "POST")
			io.ReadFull(resp.Body, make([]byte, 10))
			c.Close()
			ingresstest.Await(t, "worker's end", ended)
			wantErr(t, "Closed", <-obs.closed, upstream.ErrClient)
		})
	}
}

// TestStreamDroppedBeforeHeader: the client is gone when the handler returns, so fasthttp
// cannot even write a header.
func TestStreamDroppedBeforeHeader(t *testing.T) { tlstest.OverBoth(t, testStreamDroppedBeforeHeader) }

func testStreamDroppedBeforeHeader(t *testing.T) {
	asked, release := make(chan struct{}), make(chan struct{})
	w := startWorker(t, func(_ int, p *peer) {
		p.request()
		close(asked)
		<-release
		p.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
		p.gone()
	})
	obs := newRecorder()
	c := dialRouter(t, startRouter(t, w.addr(), obs))
	io.WriteString(c, "POST / HTTP/1.1\r\nHost: r\r\nContent-Length: 0\r\n\r\n")
	<-asked
	c.tcp.SetLinger(0)
	c.Close()
	close(release)
	ingresstest.Within(t, "Closed", func() {
		if err := <-obs.closed; err == nil {
			t.Error("Closed(nil), want an error")
		}
	})
}

func TestForwardHeaders(t *testing.T) { tlstest.OverBoth(t, testForwardHeaders) }

func testForwardHeaders(t *testing.T) {
	tests := []struct {
		name, method, answer string
		status               int
		body                 string
		header               map[string]string // "" means absent
	}{
		{
			"fields", "POST", "HTTP/1.1 429 Slow\r\nServer: uvicorn\r\nX-A: 1\r\nConnection: X-Hop, close\r\nX-Hop: 1\r\nKeep-Alive: 5\r\nContent-Length: 2\r\n\r\nok",
			429, "ok",
			map[string]string{"Server": "uvicorn", "X-A": "1", "X-Hop": "", "Keep-Alive": "", "Connection": "", "Content-Length": "2", "Content-Type": ""},
		},
		{
			"the router's own fields", "POST", "HTTP/1.1 200 OK\r\nX-Warmpath-Worker: evil\r\nx-warmpath-new: 1\r\nX-Warm: 1\r\nContent-Length: 2\r\n\r\nok",
			200, "ok",
			map[string]string{"X-Warmpath-Worker": "", "X-Warmpath-New": "", "X-Warm": "1"},
		},
		{"empty", "POST", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, "", map[string]string{"Content-Length": "0"}},
		{"no content", "POST", "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n", 204, "", map[string]string{"Connection": ""}},
		{"head", "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n", 200, "", map[string]string{"Content-Length": "7"}},
		{"old worker", "POST", "HTTP/1.0 200 OK\r\nContent-Type: a/b\r\n\r\nok", 200, "ok", map[string]string{"Content-Type": "a/b", "Connection": ""}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := startWorker(t, func(_ int, p *peer) {
				p.request()
				p.send(tt.answer)
			})
			obs := newRecorder()
			c := dialRouter(t, startRouter(t, w.addr(), obs))
			for range 2 { // The client's connection lives on, also where the worker's ends.
				resp := c.ask(t, tt.method)
				b, err := io.ReadAll(resp.Body)
				if resp.StatusCode != tt.status || string(b) != tt.body || err != nil || resp.Proto != "HTTP/1.1" {
					t.Errorf("answer = %s %d %q %v, want %d %q", resp.Proto, resp.StatusCode, b, err, tt.status, tt.body)
				}
				for k, v := range tt.header {
					if got := resp.Header.Get(k); got != v {
						t.Errorf("%s = %q, want %q", k, got, v)
					}
				}
				wantErr(t, "Closed", <-obs.closed, nil)
			}
		})
	}
}

func TestStreamRead(t *testing.T) { tlstest.OverBoth(t, testStreamRead) }

func testStreamRead(t *testing.T) {
	w := startWorker(t, each("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"))
	resp, err := newTransport(t, upstream.Config{}).Do(nil, post(w.addr()))
	if err != nil {
		t.Fatal(err)
	}
	obs := newRecorder()
	var ctx fasthttp.RequestCtx
	upstream.Forward(&ctx, resp, obs, time.Now())
	b, err := io.ReadAll(io.MultiReader(ctx.Response.BodyStream()))
	if string(b) != "hello" || err != nil {
		t.Errorf("ReadAll = %q %v", b, err)
	}
	if err := ctx.Response.CloseBodyStream(); err != nil {
		t.Error(err)
	}
	if err := <-obs.closed; err != nil || string(obs.body) != "hello" {
		t.Errorf("observer got %q, %v", obs.body, err)
	}
}
