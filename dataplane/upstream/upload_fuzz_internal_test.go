package upstream

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
)

const uploadHead = "POST /generate HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"

// readUpload reads the request at the beginning of b, in pieces of step bytes, and returns where it ends.
func readUpload(in *Inbound, b []byte, step, most int) (end int, err error) {
	p := anything()
	at := in.parse(b, p)
	if at <= 0 || !in.chunked {
		return 0, errNoUpload
	}
	in.take(b[:at], at)
	in.chunks.begin(p.MaxHead)
	for !in.chunks.done() {
		if at == len(b) {
			return at, io.ErrUnexpectedEOF
		}
		n, err := in.unchunk(b[at:min(len(b), at+step)], most)
		at += n
		if err != nil {
			return at, err
		}
	}
	return at, in.chunks.check()
}

var errNoUpload = errors.New("no upload")

// FuzzUpload: a chunked body that is taken is taken by net/http too, is the same, and ends in the same place, in whatever pieces it comes. What
// net/http takes and we do not is one of a few things.
func FuzzUpload(f *testing.F) {
	for _, chunks := range []string{
		"0\r\n\r\n", "2\r\n{}\r\n0\r\n\r\nPOST /", "00a\r\n0123456789\r\nF;x=\"y\"\r\n0123456789abcde\r\n0\r\nX-Sum: 1\r\n\r\n", "1 \r\nx\r\n0\r\n\r\n",
		"1 ;x\r\nx\r\n0\r\n\r\n", "1 x\r\nx\r\n0\r\n\r\n", "1\nx\r\n0\r\n\r\n", "1;\rx\r\ny\r\n0\r\n\r\n", "\r\n", "-1\r\n", "00000000000000001\r\nx\r\n0\r\n\r\n",
		"7fffffffffffffff\r\nx", "ffffffffffffffff\r\nx", "1\r\nxy\r\n0\r\n\r\n", "1\r\nx\n0\r\n\r\n", "0\r\nContent-Length: 5\r\n\r\n", "0\r\nX : 1\r\n\r\n", "0\r\nX: 1\n\r\n",
		"0\r\nX: \x00\r\n\r\n", "0\r\n X: 1\r\n\r\n", "0\r\nX: 1\r\n 2\r\n\r\n", "0\r\n: 1\r\n\r\n", "0\n\n", "0;" + strings.Repeat("x", 5000) + "\r\n\r\n",
		strings.Repeat("1;"+strings.Repeat("x", 1000)+"\r\nx\r\n", 30) + "0\r\n\r\n", strings.Repeat("1\r\nx\r\n", 300) + "0\r\n\r\n",
	} {
		f.Add([]byte(uploadHead+chunks), byte(len(chunks)))
	}
	f.Add([]byte(strings.Replace(uploadHead, "Host", "Trailer: X\r\nHost", 1)+"0\r\nX: 1\r\n\r\n"), byte(1))
	f.Add([]byte(strings.Replace(uploadHead, "Host", "Trailer: Content-Length\r\nHost", 1)+"0\r\n\r\n"), byte(1))
	f.Fuzz(func(t *testing.T, b []byte, step byte) {
		const most = 1 << 20
		var in, whole Inbound
		end, err := readUpload(&in, b, int(step)+1, most)
		if errors.Is(err, errNoUpload) {
			return
		}
		if _, other := readUpload(&whole, b, len(b), most); (other == nil) != (err == nil) && !errors.Is(errors.Join(err, other), errExcess) {
			t.Fatalf("in pieces of %d: %v, in one: %v: %q", int(step)+1, err, other, b)
		}
		std := bufio.NewReaderSize(bytes.NewReader(b), len(b)+16)
		want, stdErr := http.ReadRequest(std)
		var body []byte
		if stdErr == nil {
			body, stdErr = io.ReadAll(want.Body)
		}
		switch {
		case err == nil && stdErr != nil:
			if !looser(stdErr, b) {
				t.Fatalf("net/http: %v: %q", stdErr, b)
			}
		case err == nil:
			if !bytes.Equal(body, in.Body()) || !bytes.Equal(body, whole.Body()) || std.Buffered() != len(b)-end {
				t.Fatalf("net/http reads %q and leaves %d, we %q and %d: %q", body, std.Buffered(), in.Body(), len(b)-end, b)
			}
		case stdErr == nil && !stricter(err, &in):
			t.Fatalf("refused because of %v, and net/http reads %q: %q", err, body, b)
		}
	})
}

// looser tells what we take and net/http does not: white space in front of an extension (RFC 9112 7.1.1), a Trailer that announces what must not
// be in one (nothing of it goes on), and what its other limits are about.
func looser(err error, b []byte) bool {
	for _, text := range []string{"bad trailer key", "too much non-data", "header line too long", "suspiciously long trailer"} {
		if strings.Contains(err.Error(), text) {
			return true
		}
	}
	return strings.Contains(err.Error(), "invalid byte in chunk length") && (bytes.Contains(b, []byte(" ;")) || bytes.Contains(b, []byte("\t;")))
}

// stricter tells what net/http takes and we do not: what is beyond our limits, and trailers with fields that must not be in one, with lines that
// are continued or end in LF alone.
func stricter(err error, in *Inbound) bool {
	for _, limit := range []error{ErrBodyTooLarge, ErrTrailer, errExcess, errChunkOverrun} {
		if errors.Is(err, limit) {
			return true
		}
	}
	return in.chunks.state >= trailerStart
}
