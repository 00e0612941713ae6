package upstream

import (
	"errors"
	"io"

	"golang.org/x/sys/unix"

	"github.com/warmpath/warmpath/dataplane/socket"
)

// peek looks at the receive queue of an idle connection; the result goes to peeked. Requests that come in a burst look at several, one each:
// the scheduler is not told (see package socket).
func (cn *conn) peek(fd uintptr) {
	var b [1]byte
	_, err := socket.Peek(fd, b[:])
	// Else it is closed, or there are bytes that no request asked for: they would become the next answer's, or are TLS's word that the worker
	// closes. Tickets do not lie here: workers send them behind their handshake, and they were read with the first answer.
	cn.peeked = errors.Is(err, unix.EAGAIN)
}

// lends tells whether the conn can wait without a read buffer: where the bytes on the wire are those of the protocol.
func (cn *conn) lends() bool { return cn.raw != nil && !cn.tls() }

// quiet tells whether nothing will have come before the request is sent. Then it is sent where its answer is waited for, in waitFill, after
// the poller has forgotten what came before and before it waits, and the read that would find nothing yet is spared: one in four, and
// one that contends for the socket with the answer on its way. What does come before goes unnoticed, so it is for connections only that
// were in use a moment ago. A worker that ends the connection in that moment answers the request with a reset, which wakes. One that then
// only closed its sending side, unannounced, does not: keep-alive probes find it when it has closed the other side, too.
func (cn *conn) quiet() bool { return cn.hot && cn.lends() && cn.buffered() == 0 }

// waitFill is fill without a buffer meanwhile: the poller calls tryFill before it waits and when there is something to read.
func (cn *conn) waitFill() error {
	if err := cn.arm(); err != nil {
		_, err = cn.note(0, err)
		return err
	}
	cn.releaseReader()
	cn.fillErr = nil
	if err := cn.raw.Read(cn.fillFn); err != nil { // the deadline, or abort
		_, err = cn.note(0, err)
		return err
	}
	return cn.fillErr
}

func (cn *conn) tryFill(fd uintptr) bool {
	if cn.out.later {
		cn.out.later = false
		cn.tryWrite(fd)
		failed := cn.out.err != nil // from writeRest on, it is the writer's
		cn.writeRest()
		if !failed {
			return false // an answer could not be there yet
		}
	}
	cn.acquireReader()
	cn.filling = fd + 1
	_, cn.fillErr = cn.br.Peek(1)
	cn.filling = 0
	if errors.Is(cn.fillErr, unix.EAGAIN) {
		cn.releaseReader()
		return false
	}
	return true
}

// readNow is Read within tryFill.
func (cn *conn) readNow(p []byte) (int, error) {
	n, err := socket.Receive(cn.filling-1, p)
	switch {
	case errors.Is(err, unix.EAGAIN):
		return 0, err
	case err == nil && n == 0:
		err = io.EOF
	}
	return cn.note(n, err)
}

// vectors are pieces as the kernel wants them.
type vectors []unix.Iovec

// tryWrite sends as much as the socket takes now; the result goes to out.
func (cn *conn) tryWrite(fd uintptr) bool {
	for len(cn.out.parts) > 0 {
		n, err := cn.sendParts(fd)
		if err != nil {
			if !errors.Is(err, unix.EAGAIN) {
				cn.out.err = err
			}
			break
		}
		cn.out.advance(n)
	}
	return true // Never park: whoever waits here could not read an early answer.
}

// sendParts sends as much as one system call takes.
func (cn *conn) sendParts(fd uintptr) (int, error) {
	if len(cn.out.parts) == 1 {
		return socket.Send(fd, cn.out.parts[0])
	}
	cn.vec = cn.vec[:0]
	for _, p := range cn.out.parts[:min(len(cn.out.parts), maxVec)] {
		v := unix.Iovec{Base: &p[0]}
		v.SetLen(len(p))
		cn.vec = append(cn.vec, v)
	}
	n, err := socket.Gather(fd, cn.vec)
	clear(cn.vec) // the pieces are the caller's
	return n, err
}

// writeNow sends what the socket takes without waiting.
func (cn *conn) writeNow() {
	if cn.raw == nil || cn.tls() {
		cn.writeSmall()
		return
	}
	if err := cn.raw.Write(cn.writeFn); err != nil {
		cn.out.err = err
	}
}
