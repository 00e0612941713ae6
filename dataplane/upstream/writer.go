package upstream

import (
	"errors"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warmpath/warmpath/dataplane/socket"
)

const (
	// maxVec is the most parts that Linux takes in one writev.
	maxVec = 1024
	// smallWrite fits a fresh socket's send buffer (tcp_wmem's default is 16 KiB), and one TLS
	// record.
	smallWrite = 16 << 10
	// maxJoined is the longest body that is worth a copy behind its head: the kernel takes one
	// piece for less than several.
	maxJoined = 4 << 10
)

// requestWriter writes the requests on a connection.
type requestWriter struct {
	nc  net.Conn
	tcp net.Conn
	raw syscall.RawConn // writes without waiting; nil: TLS, or another system than Linux

	head    []byte        // of the request, reused
	parts   [][]byte      // not yet with the kernel; the slices are the caller's
	store   [][]byte      // parts' backing array, reused
	bufs    net.Buffers   // parts again, as the type that writev wants
	vec     vectors       // of parts, reused
	err     error         // a failed write; the answer may still be there to read
	done    chan struct{} // closed by the goroutine that writes the rest; nil: there is none
	writeFn func(fd uintptr) bool
}

// send writes the head and body. It returns when the kernel has all of it, or when the socket is
// full: a goroutine then writes the rest, so that the caller can read an answer that comes early
// (413 to a large body) instead of both sides waiting for each other. finish joins that goroutine.
func (w *requestWriter) send(body [][]byte) {
	total := 0
	for _, b := range body {
		total += len(b)
	}
	if total <= maxJoined {
		for _, b := range body {
			w.head = append(w.head, b...)
		}
		body = nil
	}
	w.err = nil
	w.store = append(w.store[:0], w.head)
	for _, b := range body {
		if len(b) > 0 {
			w.store = append(w.store, b)
		}
	}
	w.parts = w.store
	if w.raw == nil {
		w.writeSmall()
	} else if err := w.raw.Write(w.writeFn); err != nil {
		w.err = err
	}
	w.writeRest()
}

// tryWrite sends as much as the socket takes now. It never waits: the caller could not read an
// early answer meanwhile.
func (w *requestWriter) tryWrite(fd uintptr) bool {
	for len(w.parts) > 0 {
		n, err := w.vec.sendParts(fd, w.parts)
		if err != nil {
			if !errors.Is(err, unix.EAGAIN) {
				w.err = err
			}
			break
		}
		w.advance(n)
	}
	return true
}

// advance drops the first n bytes.
func (w *requestWriter) advance(n int) {
	for n > 0 && len(w.parts) > 0 {
		if n < len(w.parts[0]) {
			w.parts[0] = w.parts[0][n:]
			return
		}
		n -= len(w.parts[0])
		w.parts = w.parts[1:]
	}
}

// writeSmall sends a small request in one piece where the kernel cannot gather it; a large one
// is left to the goroutine whole.
func (w *requestWriter) writeSmall() {
	total := 0
	for _, p := range w.parts {
		total += len(p)
	}
	if total > smallWrite {
		return
	}
	for _, p := range w.parts[1:] {
		w.head = append(w.head, p...)
	}
	_, w.err = w.nc.Write(w.head)
	w.parts = nil
}

// writeRest has a goroutine write the bytes that the socket did not take.
func (w *requestWriter) writeRest() {
	if w.err != nil || len(w.parts) == 0 {
		w.release()
		return
	}
	done := make(chan struct{})
	w.done, w.bufs = done, w.parts
	to := w.nc
	if w.raw != nil {
		to = w.tcp // which gathers
	}
	go func() {
		_, w.err = w.bufs.WriteTo(to)
		close(done)
	}()
}

// finish ends the goroutine, if there is one, and reports whether the whole request was sent.
func (w *requestWriter) finish() bool {
	if w.done == nil {
		return w.err == nil
	}
	select {
	case <-w.done:
	default:
		// The answer is complete. Either the worker did not want the rest, which ends the
		// connection, or all is written and the goroutine has not run since.
		_ = w.tcp.SetWriteDeadline(time.Unix(1, 0))
		<-w.done
		if w.err == nil {
			w.err = w.tcp.SetWriteDeadline(time.Time{})
		}
	}
	w.done = nil
	w.release()
	return w.err == nil
}

// release forgets the caller's slices.
func (w *requestWriter) release() {
	clear(w.store)
	w.parts, w.bufs = nil, nil
}

// vectors are pieces as the kernel wants them.
type vectors []unix.Iovec

// sendParts sends as much of parts, of which there is one at least, as one system call takes.
func (v *vectors) sendParts(fd uintptr, parts [][]byte) (int, error) {
	if len(parts) == 1 {
		return socket.Send(fd, parts[0])
	}
	*v = (*v)[:0]
	for _, p := range parts[:min(len(parts), maxVec)] {
		iov := unix.Iovec{Base: &p[0]}
		iov.SetLen(len(p))
		*v = append(*v, iov)
	}
	n, err := socket.Gather(fd, *v)
	clear(*v) // the pieces are the caller's
	return n, err
}
