package upstream

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"
)

// anything takes every target.
func anything() *Plain {
	return &Plain{Takes: func([]byte, int) bool { return true }, MaxHead: 16 << 10}
}

const plainRequest = "POST /generate HTTP/1.1\r\nHost: a:1\r\nContent-Type: application/json\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\n{}"

// seeds are requests that are plain, nearly plain, and far from it.
var seeds = []string{
	plainRequest,
	"POST / HTTP/1.1\r\nHost: [::1]:80\r\nX-A:\r\nX-A: b \t\r\nx-b:\tc d\r\nContent-Length:0\r\n\r\n",
	"POST /a HTTP/1.1\r\ncontent-length: 3\r\nhost: b\r\nUser-Agent: u\r\nCookie: a=b; c=d\r\nAccept-Encoding: gzip\r\n\r\nabcPOST /",
	"POST /a HTTP/1.1\r\nHost: a\r\nHost: b\r\nContent-Length: 0\r\n\r\n",
	"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx",
	"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\nx",
	"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length : 1\r\n\r\nx",
	"POST /a HTTP/1.1\r\nHost: a\r\nX: b\r\n c\r\nContent-Length: 1\r\n\r\nx",
	"POST /a HTTP/1.1\r\nHost: a\r\nX: b\nContent-Length: 1\r\n\r\nx",
	"POST /a HTTP/1.1\r\nHost: a\r\nX: b\rContent-Length: 1\r\n\r\nx",
	"POST /a HTTP/1.1\nHost: a\nContent-Length: 1\n\nx",
	"POST  /a HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx",
	"POST /a?b HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx",
	"POST http://a/b HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx",
	"POST /a HTTP/1.0\r\nHost: a\r\nContent-Length: 1\r\n\r\nx",
	"POST /a HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\nx",
	"POST /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx",
	"POST /a HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\nConnection: X-A\r\nX-A: 1\r\nContent-Length: 1\r\n\r\nx",
	"POST /a HTTP/1.1\r\nHost: a\r\nX-\x80: \xff\r\nContent-Length: 1\r\n\r\nx",
	"POST /a HTTP/1.1\r\nHost: a\r\nX: \x00\r\nContent-Length: 1\r\n\r\nx",
	"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
	"\r\nPOST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
}

// FuzzInbound: what is taken for a plain request is the same request to net/http and to fasthttp, with the same end; and nothing less of it
// is, nor anything else.
func FuzzInbound(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var in Inbound
		size := in.parse(b, anything())
		if size <= 0 || size > len(b) || in.chunked { // for which there is FuzzUpload
			return
		}
		for n := range in.head {
			var short Inbound
			if got := short.parse(b[:n], anything()); got != headShort {
				t.Fatalf("%d of %q: %d, want more to be waited for", n, b[:in.head], got)
			}
		}
		in.take(b[:size], size)
		std := bufio.NewReader(bytes.NewReader(b))
		want, err := http.ReadRequest(std)
		if err != nil {
			t.Fatalf("net/http: %v: %q", err, b)
		}
		body, err := io.ReadAll(want.Body)
		if err != nil || !bytes.Equal(body, in.Body()) || std.Buffered() != min(len(b), 4096)-size && len(b) <= 4096 {
			t.Fatalf("net/http reads body %q, %v, leaves %d: %q", body, err, std.Buffered(), b)
		}
		if want.Method != string(in.Method()) || want.RequestURI != string(in.Target()) || want.Host != string(in.Peek("host")) || want.Close != in.last {
			t.Fatalf("net/http: %s %s of %s, close %v: %q", want.Method, want.RequestURI, want.Host, want.Close, b)
		}
		sameFields(t, &in, want.Header)
		var other fasthttp.Request
		br := bufio.NewReaderSize(bytes.NewReader(b[:size]), 64<<10)
		if err := other.Read(br); err != nil {
			t.Fatalf("fasthttp: %v: %q", err, b)
		}
		if in.asks && other.MayContinue() { // which it takes in lower case only
			require.NoError(t, other.ContinueReadBody(br, 0))
		}
		h := &other.Header
		if !bytes.Equal(other.Body(), in.Body()) || !bytes.Equal(h.RequestURI(), in.Target()) || !bytes.Equal(h.Host(), in.Peek("host")) ||
			h.ConnectionClose() != in.last || !h.IsPost() || h.ContentLength() != len(in.Body()) {
			t.Fatalf("fasthttp: %q: %q", other.String(), b)
		}
	})
}

// sameFields compares every field, and what goes to a worker with what may.
func sameFields(t *testing.T, in *Inbound, want http.Header) {
	t.Helper()
	got := http.Header{}
	for _, f := range in.fields {
		k := http.CanonicalHeaderKey(string(in.buf[f.name:f.colon]))
		got[k] = append(got[k], string(in.buf[f.value:f.end]))
	}
	delete(got, "Host") // which net/http has elsewhere
	if len(got) != len(want) {
		t.Fatalf("fields %v, want %v", got, want)
	}
	for k, vs := range want {
		if strings.Join(got[k], "\n") != strings.Join(vs, "\n") || string(in.Peek(k)) != vs[0] {
			t.Fatalf("%s: %q, want %q", k, got[k], vs)
		}
	}
	for line := range strings.SplitSeq(string(in.AppendLines(nil, nil)), "\r\n") {
		k, v, _ := strings.Cut(line, ": ")
		if line != "" && (skipRequestField([]byte(k)) || !slices.Contains(want[http.CanonicalHeaderKey(k)], v)) {
			t.Fatalf("the worker gets %q", line)
		}
	}
}

// FuzzPlainAnswer: what is taken for the head of a plain answer is the same to fasthttp and net/http, and so is what goes to a client.
func FuzzPlainAnswer(f *testing.F) {
	for _, s := range []string{
		"HTTP/1.1 200 OK\r\ndate: x\r\nserver: uvicorn\r\ncontent-length: 2\r\ncontent-type: application/json\r\n\r\nok",
		"HTTP/1.1 503 \r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 404 Not  Found\r\nX-Warmpath-Worker: y\r\nContent-Length:4\r\n\r\nabcd",
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok", "HTTP/1.1 204 No\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 200 OK\nContent-Length: 0\n\n", "HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\nSet-Cookie: c=d\r\nKeep-Alive: 5\r\nContent-Length: 0\r\n\r\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		tr := NewTransport(Config{})
		cn := &conn{readers: &tr.readers}
		cn.acquireReader()
		cn.br.Reset(bytes.NewReader(b))
		_, _ = cn.br.Peek(1)
		r := &Response{t: tr, cn: cn}
		if !r.parsePlain() {
			return
		}
		want, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(b)), nil)
		if err != nil {
			t.Fatalf("net/http: %v: %q", err, b)
		}
		if want.StatusCode != r.Status || want.ContentLength != r.left || want.Close {
			t.Fatalf("net/http: %d of %d bytes, close %v: %q", want.StatusCode, want.ContentLength, want.Close, b)
		}
		sent, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(append(r.appendHead(nil), "\r\n"...))), nil)
		if err != nil || sent.Status != want.Status || sent.ContentLength != want.ContentLength {
			t.Fatalf("the client gets %q of %q: %v", r.appendHead(nil), b, err)
		}
		for k, vs := range want.Header {
			if string(r.Peek(k)) != vs[0] {
				t.Fatalf("Peek(%s) = %q, want %q", k, r.Peek(k), vs)
			}
			if gone := hopByHop([]byte(k)) || ownField([]byte(strings.ToLower(k))) || k == "Accept-Encoding" || k == "Host"; !gone &&
				strings.Join(sent.Header[k], "\n") != strings.Join(vs, "\n") {
				t.Fatalf("%s: %q to the client, want %q", k, sent.Header[k], vs)
			}
		}
		left := r.left
		if r.readRaw(); r.plain || r.Header.StatusCode() != want.StatusCode || int64(r.Header.ContentLength()) != left ||
			string(r.Header.Peek("Content-Length")) != strconv.FormatInt(left, 10) {
			t.Fatalf("fasthttp: %q of %q", r.Header.String(), b)
		}
	})
}
