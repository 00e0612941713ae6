package upstream_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/textproto"
	"regexp"
	"testing"

	"github.com/warmpath/warmpath/dataplane/upstream"
)

// reference reads an answer with the standard library, interim answers skipped.
func reference(in []byte, method string) (status int, body []byte, rest int, err error) {
	br := bufio.NewReader(bytes.NewReader(in))
	for {
		resp, err := http.ReadResponse(br, &http.Request{Method: method})
		if err != nil {
			return 0, nil, 0, err
		}
		if resp.StatusCode >= 100 && resp.StatusCode < 200 {
			continue
		}
		body, err := io.ReadAll(resp.Body)
		left, _ := io.Copy(io.Discard, br)
		return resp.StatusCode, body, int(left), err
	}
}

var spacedColon = regexp.MustCompile(`[ \t]:`)

// FuzzResponse compares with net/http. An answer that both take for whole must be the same
// answer; one that is cut short for one of them must not be whole for the other.
func FuzzResponse(f *testing.F) {
	for _, s := range []string{
		plainAnswer, sseAnswer,
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
		"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello",
		"HTTP/1.0 200 OK\r\n\r\nhello",
		"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\nA: b\r\n\r\nrest",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\nabc\n0\n\n",
		"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length : 2\r\n\r\nok",
		"\r\nHTTP/1.1 200\r\n\r\n",
	} {
		f.Add([]byte(s), false, uint16(0))
		f.Add([]byte(s), true, uint16(3))
	}
	tr := upstream.NewTransport(upstream.Config{})
	f.Cleanup(func() { tr.Close() })
	f.Fuzz(func(t *testing.T, in []byte, head bool, step uint16) {
		if spacedColon.Match(in) {
			return // "A : b" is a field A to us, as RFC 9112 5.1 has it for proxies, and no field to net/http.
		}
		method := "POST"
		if head {
			method = "HEAD"
		}
		wantStatus, wantBody, _, wantErr := reference(in, method)
		status, body, _, err := tr.ReadAnswer(in, method, int(step))
		switch {
		case err == nil && wantErr == nil:
			if status != wantStatus || !bytes.Equal(body, wantBody) {
				t.Errorf("answer %q:\n got %d %q\nwant %d %q", in, status, body, wantStatus, wantBody)
			}
		case errors.As(wantErr, new(textproto.ProtocolError)):
			// A malformed trailer line: ours are counted and dropped.
		case err == nil && wantStatus != 0:
			t.Errorf("answer %q: got %d %q whole, net/http: %v", in, status, body, wantErr)
		}
	})
}
