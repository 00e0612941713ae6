package upstream

import (
	"bufio"
	"bytes"
	"net/http"
	"net/textproto"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"
)

// pass sends a trailer section, which may be malformed, through the decoder and Forward's end,
// and returns the client's part of it; ok is false where the decoder refuses it. announced is
// the worker's Trailer field.
func pass(section []byte, announced string, step int) (got string, ok bool) {
	d := chunkDecoder{limit: 4096}
	src := append([]byte("1\r\nx\r\n0\r\n"), section...)
	buf := make([]byte, 8)
	for len(src) > 0 && !d.done() {
		_, ns, err := d.decode(buf, src[:min(step, len(src))])
		if err != nil {
			return "", false
		}
		src = src[ns:]
	}
	r := &Response{body: bodyChunked, chunks: d}
	h := &r.Header
	_ = h.SetTrailer(announced)
	announce(h)
	conclude(h, r)
	return string(h.TrailerHeader()), d.done()
}

func TestTrailer(t *testing.T) {
	tests := []struct{ name, announced, section, want string }{
		{"none", "", "\r\n", "\r\n"},
		{"announced", "X-Sum", "X-Sum: 1\r\n\r\n", "X-Sum: 1\r\n\r\n"},
		{"not announced", "", "X-Sum: 1\r\n\r\n", "X-Sum: 1\r\n\r\n"},
		{"announced and not there", "X-Sum", "\r\n", "\r\n"},
		{"another one", "X-Sum", "X-Time: 2\r\n\r\n", "X-Time: 2\r\n\r\n"},
		{"several", "X-A, X-B", "X-A: 1\r\nX-B:2\r\nX-C:\t3 \r\n\r\n", "X-A: 1\r\nX-B: 2\r\nX-C: 3\r\n\r\n"},
		{"more than once", "", "x-a: 1\r\nX-B: 2\r\nX-A: 3\r\n\r\n", "X-A: 1, 3\r\nX-B: 2\r\n\r\n"},
		{"empty value", "", "X-A:\r\n\r\n", "X-A: \r\n\r\n"},
		{
			"forbidden", "Content-Length, X-A", "Content-Length: 5\r\nTransfer-Encoding: chunked\r\nHost: x\r\nConnection: close\r\nTrailer: X-B\r\n" +
				"Set-Cookie: a=b\r\nContent-Encoding: gzip\r\nContent-Type: a/b\r\nKeep-Alive: 5\r\nUpgrade: h2c\r\nTE: trailers\r\nX-A: 1\r\n\r\n",
			"X-A: 1\r\n\r\n",
		},
		{"no field", "", "nonsense\r\n: x\r\nX A: 1\r\nX-A : 1\r\n folded\r\nX-B: a\x00b\r\nX-C: a\rb\r\n\r\n", ""},
	}
	for _, tt := range tests {
		for _, step := range []int{1, 2, 1 << 20} {
			got, ok := pass([]byte(tt.section), tt.announced, step)
			if tt.want == "" { // a CR inside of a line ends the answer
				if ok {
					t.Errorf("%s by %d = %q, want it refused", tt.name, step, got)
				}
				continue
			}
			if got != tt.want || !ok {
				t.Errorf("%s by %d = %q %v, want %q", tt.name, step, got, ok, tt.want)
			}
		}
	}
}

func TestTrailerLinesThatAreNoFields(t *testing.T) {
	got, ok := pass([]byte("nonsense\r\n: x\r\nX A: 1\r\nX-A : 1\r\n folded\r\nX-B: a\x00b\r\nX-C: 2\r\n\r\n"), "", 7)
	if want := "X-C: 2\r\n\r\n"; got != want || !ok {
		t.Errorf("got %q %v, want %q", got, ok, want)
	}
}

// TestAnnounceKeepsHeader: fasthttp takes announced trailer fields out of the header.
func TestAnnounceKeepsHeader(t *testing.T) {
	var h fasthttp.ResponseHeader
	h.Set("X-A", "1")
	_ = h.SetTrailer("X-A, X-B")
	announce(&h)
	if got := h.String(); !strings.Contains(got, "X-A: 1\r\n") || !strings.Contains(got, "Trailer: X-B\r\n") {
		t.Errorf("header %q, want X-A in it and X-B announced", got)
	}
}

// FuzzTrailer compares with net/textproto: the client always gets a section of well-formed
// fields, none of them forbidden, and where textproto reads the worker's section as one, the
// client gets the same fields.
func FuzzTrailer(f *testing.F) {
	for _, s := range []string{"\r\n", "X-A: 1\r\n\r\n", "A: 1\r\na:2\r\nHost: x\r\n\r\n", "nonsense\r\n\r\n", "A: 1\r\n b\r\n\r\n", "A: 1\n\r\n"} {
		f.Add([]byte(s), "X-A, A", uint8(3))
	}
	f.Fuzz(func(t *testing.T, section []byte, announced string, step uint8) {
		got, ok := pass(section, announced, int(step)+1)
		if !ok {
			return
		}
		sent, err := textproto.NewReader(bufio.NewReader(strings.NewReader(got))).ReadMIMEHeader()
		if err != nil {
			t.Fatalf("section %q becomes %q: %v", section, got, err)
		}
		for k := range sent {
			switch k {
			case "Content-Length", "Transfer-Encoding", "Host", "Connection", "Trailer", "Te", "Upgrade", "Keep-Alive", "Set-Cookie",
				"Content-Encoding", "Content-Type", "Authorization":
				t.Errorf("section %q becomes %q, with %s", section, got, k)
			}
		}
		want, err := textproto.NewReader(bufio.NewReader(bytes.NewReader(section))).ReadMIMEHeader()
		if err != nil || bytes.Contains(section, []byte("\n ")) || bytes.Contains(section, []byte("\n\t")) {
			return // refused there, or folded lines, which are no fields to us
		}
		for k, vs := range want {
			if isToken([]byte(k)) && len(sent[k]) > 0 && sent.Get(k) != http.Header(want).Get(k) && len(vs) == 1 {
				t.Errorf("section %q becomes %q: %s is %q, want %q", section, got, k, sent.Get(k), vs)
			}
			if strings.HasPrefix(k, "X-") && isToken([]byte(k)) && len(sent[k]) == 0 {
				t.Errorf("section %q becomes %q: %s is missing", section, got, k)
			}
		}
	})
}
