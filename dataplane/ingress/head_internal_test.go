package ingress

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestBareLFInPieces: a line that ends in LF alone is refused for that, whether the rest of the head
// comes or not, and in pieces of any size.
func TestBareLFInPieces(t *testing.T) {
	for _, head := range []string{
		"GET / HTTP/1.1\nHost: x\n\n", "GET / HTTP/1.1\nHost: x\r\n\r\n", "GET / HTTP/1.1\n", "\r\n\nGET / HTTP/1.1\r\nHost: x\n",
		"GET / HTTP/1.1\r\nHost: x\n\n", "GET / HTTP/1.1\r\nHost: x\r\n\n", "GET / HTTP/1.1\r\nHost: x\r\nX: y\n",
	} {
		for before, requests := range map[string]int{
			"": 0, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n\na\n": 1, fuzzChunked + "3;x\r\n\na\n\r\n00\r\nX: y\r\n\r\n": 1,
			fuzzChunked + "0\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n": 2,
		} {
			for step := 1; step <= len(before+head); step++ {
				served, refused := serveBytes([]byte(before+head), step)
				require.Len(t, served, requests, "%q in pieces of %d", before+head, step)
				require.ErrorIs(t, refused, errBareLF, "%q in pieces of %d", before+head, step)
			}
		}
	}
	for _, trailer := range []string{"\n", "X: y\n\r\n", "X: y\n\n", "X: y\r\n\n", "X\n"} {
		for step := 1; step <= 64; step++ {
			served, refused := serveBytes([]byte(fuzzChunked+"2\r\n{}\r\n0\r\n"+trailer), step)
			require.Empty(t, served, "%q in pieces of %d", trailer, step)
			require.ErrorIs(t, refused, errBareLF, "%q in pieces of %d", trailer, step)
		}
	}
	const sound = "\r\n\nPOST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n\na\n"
	for step := 1; step <= 2*len(sound); step++ {
		served, refused := serveBytes([]byte(sound+sound), step)
		require.NoError(t, refused, "in pieces of %d", step)
		require.Equal(t, []readRequest{{"POST", "/", "x", "\na\n"}, {"POST", "/", "x", "\na\n"}}, served, "in pieces of %d", step)
	}
}

// TestHeadsAreNotQuoted: a proxy may have put its own key into a head, and a client that the answer
// quotes it to may make the head faulty.
func TestHeadsAreNotQuoted(t *testing.T) {
	for _, head := range []string{
		"POST / HTTP/1.10\r\nAuthorization: secret\r\n\r\n", "POST\r\nAuthorization: secret\r\n\r\n", "P\x01ST / HTTP/1.1\r\nAuthorization: secret\r\n\r\n",
		"POST  HTTP/1.1\r\nAuthorization: secret\r\n\r\n", "POST / HTTP/1.1\r\nAuthorization: secret\r\nX: \x01\r\n\r\n", "POST / HTTP/1.1\r\nAuthorization: secret\x01\r\n\r\n",
		"POST / HTTP/1.1\r\nsecret \x01: x\r\n\r\n", "POST / HTTP/1.1\r\nAuthorization: secret\r\n\r\n", "POST / HTTP/1.1\nAuthorization: secret\n\n", "POST / HTTP/1.1\r\nAuthorization: secret\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: secret\r\n\r\n", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\nAuthorization: secret\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("secret", 1<<10) + "\r\n\r\n",
	} {
		_, refused := serveBytes([]byte(head), len(head))
		require.Error(t, refused, "%q", head)
		require.NotContains(t, refused.Error(), "secret")
	}
}
