package ingress

import (
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
		for step := 1; step <= len(head); step++ {
			served, refused := serveBytes([]byte(head), step)
			require.Empty(t, served, "%q in pieces of %d", head, step)
			require.ErrorIs(t, refused, ErrRequest, "%q in pieces of %d", head, step)
		}
	}
	const sound = "\r\n\nPOST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n\na\n"
	for step := 1; step <= 2*len(sound); step++ {
		served, refused := serveBytes([]byte(sound+sound), step)
		require.NoError(t, refused, "in pieces of %d", step)
		require.Equal(t, []readRequest{{"POST", "/", "x", "\na\n"}, {"POST", "/", "x", "\na\n"}}, served, "in pieces of %d", step)
	}
}
