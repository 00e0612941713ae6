package upstream

import (
	"strings"
	"testing"
)

// headSeeds are where FuzzHeadEnd begins.
var headSeeds = []string{
	"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", "\r\nHTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\nA: b\n\r\n", "HTTP/1.1 200 OK\r\nA: b\r\n",
}

// FuzzHeadEnd: a head ends where its first empty line does, and no line of it ends in LF alone.
func FuzzHeadEnd(f *testing.F) {
	for _, s := range append(headSeeds, "\r\n\r\nGET / HTTP/1.1\r\n\r\n", "\n", "a\r\n\nb", "a\r\r\n\r\n", "") {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		want, begun := headIncomplete, false
		for at := 0; ; {
			rest := string(b[at:])
			line, _, _ := strings.Cut(rest, "\n")
			if line == rest {
				break // not ended
			}
			if line += "\n"; !strings.HasSuffix(line, "\r\n") {
				want = headMalformed
				break
			}
			if begun && line == "\r\n" {
				want = at + len(line)
				break
			}
			begun = begun || line != "\r\n"
			at += len(line)
		}
		if got := headEnd(b); got != want {
			t.Fatalf("%d, want %d: %q", got, want, b)
		}
	})
}
