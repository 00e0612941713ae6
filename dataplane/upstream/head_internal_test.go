package upstream

import (
	"strings"
	"testing"
)

// headSeeds are where FuzzHeadEnd begins.
var headSeeds = []string{
	"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", "\r\nHTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\nA: b\n\r\n", "HTTP/1.1 200 OK\r\nA: b\r\n",
}

// FuzzHeadEnd: a head ends where its first empty line does, no line of it ends in LF alone, and no
// name of a field has a space.
func FuzzHeadEnd(f *testing.F) {
	for _, s := range append(headSeeds, "\r\n\r\nGET / HTTP/1.1\r\n\r\n", "\n", "a\r\n\nb", "a\r\r\n\r\n", "", "a\r\nb c: d\r\n\r\n", "a\r\nb\t: d\r\n\r\n", "a:b c\r\n d e:f\r\n\r\n") {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		want, begun, spaced := headIncomplete, false, false
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
			if name, _, ok := strings.Cut(line, ":"); begun && ok && strings.TrimLeft(name, " \t") == name {
				spaced = spaced || strings.ContainsAny(name, " \t")
			}
			begun = begun || line != "\r\n"
			at += len(line)
		}
		got, names := headEnd(b)
		if got != want || names != (spaced && want > 0) {
			t.Fatalf("%d %v, want %d %v: %q", got, names, want, spaced, b)
		}
	})
}
