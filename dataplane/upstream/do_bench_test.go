package upstream_test

import (
	"testing"

	"github.com/warmpath/warmpath/dataplane/ingress/ingresstest"
	"github.com/warmpath/warmpath/dataplane/upstream"
)

const (
	plainAnswer = "HTTP/1.1 200 OK\r\ndate: Sat, 22 Aug 2026 00:00:00 GMT\r\nserver: uvicorn\r\ncontent-length: 2\r\ncontent-type: application/json\r\n\r\nok"
	sseAnswer   = "HTTP/1.1 200 OK\r\ndate: Sat, 22 Aug 2026 00:00:00 GMT\r\nserver: uvicorn\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n" +
		"9\r\ndata: 1\n\n\r\ne\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"
	chatHead = "POST /v1/chat/completions HTTP/1.1\r\nHost: router:8000\r\nUser-Agent: OpenAI/Python 1.99\r\nContent-Type: application/json\r\n" +
		"Accept: application/json\r\nAccept-Encoding: gzip, deflate\r\nConnection: keep-alive\r\nAuthorization: Bearer sk-1\r\nX-Stainless-Lang: python\r\nContent-Length: 300\r\n\r\n"
)

// echo answers every request on one connection without allocating, once it is warm. It takes
// all that one read gives it for one request, which holds on loopback for small ones.
func echo(answer string) func(int, *peer) {
	out := []byte(answer)
	return func(_ int, p *peer) {
		buf := make([]byte, 64<<10)
		for {
			if _, err := p.Read(buf); err != nil {
				return
			}
			if _, err := p.Write(out); err != nil {
				return
			}
		}
	}
}

func chat(t testing.TB, addr string, size int) *upstream.Request {
	t.Helper()
	req := post(addr)
	req.Extra = []upstream.Field{{Key: "X-Request-Id", Value: []byte("0123456789abcdef")}}
	req.Lines = upstream.AppendLines(nil, clientHeader(t, chatHead), req.Extra)
	req.Body = [][]byte{[]byte("{"), make([]byte, size-1)}
	req.HeaderTimeout, req.ReadTimeout = ingresstest.Patience, ingresstest.Patience
	return req
}

// sink drops everything.
type sink struct{}

func (sink) Body([]byte)         {}
func (sink) Broken(error) []byte { return nil }

func (sink) Ended() []byte { return nil }
func (sink) Closed(error)  {}

// BenchmarkDo is the upstream side alone; the worker's echo is in the same process and is part
// of the time.
func BenchmarkDo(b *testing.B) {
	for _, bb := range []struct {
		name, answer string
		size         int
	}{{"plain/body=300", plainAnswer, 300}, {"plain/body=8192", plainAnswer, 8192}, {"sse/body=300", sseAnswer, 300}} {
		b.Run(bb.name, func(b *testing.B) {
			w := startWorker(b, echo(bb.answer))
			tr := newTransport(b, upstream.Config{})
			req, buf := chat(b, w.addr(), bb.size), make([]byte, 4096)
			var c upstream.Canceler
			b.ReportAllocs()
			for b.Loop() {
				c.Reset()
				resp, err := tr.Do(&c, req)
				if err != nil {
					b.Fatal(err)
				}
				for err == nil {
					_, err = resp.Read(buf)
				}
				resp.Close()
			}
		})
	}
}
