package upstream

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/warmpath/warmpath/dataplane/socket"
)

// peek looks at the receive queue of an idle connection; the result goes to peeked.
func (cn *conn) peek(fd uintptr) {
	var b [1]byte
	_, err := socket.Peek(fd, b[:])
	// Else the connection is closed, or holds bytes that no request asked for: they would
	// become the next answer's, or are TLS's word that the worker closes. Session tickets do
	// not lie here: workers send them behind their handshake, and they were read with the first
	// answer.
	cn.peeked = errors.Is(err, unix.EAGAIN)
}
