package replay

import (
	"bufio"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/valyala/fasthttp"
)

func TestBodies(t *testing.T) {
	tests := []struct {
		name   string
		length int
		wire   string
		want   string
		ok     bool
		rest   string // bytes that must be left for the next answer
	}{
		{"chunks", inChunks, "3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\n\r\nHTTP", "abc0123456789", true, "HTTP"},
		{"trailer", inChunks, "1\r\na\r\n0\r\nX: y\r\n\r\nHTTP", "a", true, "HTTP"},
		{"no chunk", inChunks, "0\r\n\r\n", "", true, ""},
		{"cut within a chunk", inChunks, "5\r\nab", "ab", false, ""},
		{"cut between chunks", inChunks, "2\r\nab\r\n", "ab", false, ""},
		{"not a size", inChunks, "xyz\r\n", "", false, ""},
		{"negative", inChunks, "-1\r\n", "", false, ""},
		{"huge", inChunks, "ffffffffffffffffff\r\n", "", false, ""},
		{"chunk longer than its size", inChunks, "1\r\nab\r\n0\r\n\r\n", "a", false, ""},
		{"fixed", 3, "abcHTTP", "abc", true, "HTTP"},
		{"fixed, cut", 3, "ab", "ab", false, ""},
		{"until close", untilClose, "abc", "abc", true, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := bufio.NewReader(iotest.OneByteReader(strings.NewReader(tt.wire)))
			var header fasthttp.ResponseHeader
			header.SetContentLength(tt.length)
			got, err := io.ReadAll(newBody(in, &header))
			if string(got) != tt.want || (err == nil) != tt.ok {
				t.Errorf("read %q, %v, want %q, ok %v", got, err, tt.want, tt.ok)
			}
			if rest, _ := io.ReadAll(in); tt.ok && string(rest) != tt.rest {
				t.Errorf("%q is left, want %q", rest, tt.rest)
			}
		})
	}
}

// However the bytes are cut into reads, the events must be the same.
func TestEventsInAnyPieces(t *testing.T) {
	const answer = "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n: comment\n" +
		"data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\r\n\r\ndata:{\"usage\":{\"prompt_tokens\":7}}\n\ndata: [DONE]\n\n"
	content := strings.Index(answer, `"x"`)
	for size := 1; size <= len(answer); size++ {
		e := events{api: APIChat}
		base := time.Unix(0, 0)
		for at := 0; at < len(answer); at += size {
			e.write([]byte(answer[at:min(at+size, len(answer))]), base.Add(time.Duration(at)))
		}
		if e.count != 3 || !e.done || string(e.last) != `{"usage":{"prompt_tokens":7}}` {
			t.Fatalf("pieces of %d: %d events, done %v, last %q", size, e.count, e.done, e.last)
		}
		if at := int(e.first.Sub(base)); at+size <= content {
			t.Fatalf("pieces of %d: content at byte %d, before it came", size, at)
		}
	}
}
