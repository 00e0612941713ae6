package upstream

import (
	"net"
	"time"
)

const (
	// Linux takes at most 1024 parts in one writev.
	maxVec = 1024
	// What a fresh socket's send buffer takes for sure (tcp_wmem's default is 16 KiB), and one TLS record.
	smallWrite = 16 << 10
	// maxJoined is the longest body that is worth a copy behind its head: the kernel takes one piece for less than several.
	maxJoined = 4 << 10
)

// outgoing is the part of a request that is not yet with the kernel.
type outgoing struct {
	parts  [][]byte    // what is left; the slices are the caller's
	store  [][]byte    // parts' backing array, reused
	bufs   net.Buffers // parts again, as the type that writev wants
	err    error       // a failed write; the answer may still be there to read
	later  bool        // nothing was written yet: waitFill does it
	writer chan struct{}
}

// set makes head and body the bytes to send.
func (o *outgoing) set(head []byte, body [][]byte) {
	o.err, o.later = nil, false
	o.store = append(o.store[:0], head)
	for _, b := range body {
		if len(b) > 0 {
			o.store = append(o.store, b)
		}
	}
	o.parts = o.store
}

// advance drops the first n bytes.
func (o *outgoing) advance(n int) {
	for n > 0 && len(o.parts) > 0 {
		if n < len(o.parts[0]) {
			o.parts[0] = o.parts[0][n:]
			return
		}
		n -= len(o.parts[0])
		o.parts = o.parts[1:]
	}
}

// release forgets the caller's slices.
func (o *outgoing) release() {
	clear(o.store)
	o.parts, o.bufs = nil, nil
}

// send writes the head and body. It returns when the kernel has all of it, or when the socket is full: a goroutine then
// writes the rest, so that the caller can read an answer that comes early (413 to a large body) instead of both sides
// waiting for each other. finishSend joins that goroutine.
func (cn *conn) send(body [][]byte) {
	total := 0
	for _, b := range body {
		total += len(b)
	}
	if total <= maxJoined {
		for _, b := range body {
			cn.head = append(cn.head, b...)
		}
		body = nil
	}
	cn.out.set(cn.head, body)
	if cn.out.later = cn.quiet(); !cn.out.later {
		cn.writeNow()
		cn.writeRest()
	}
}

// writeRest has a goroutine write what the socket did not take.
func (cn *conn) writeRest() {
	if cn.out.err != nil || len(cn.out.parts) == 0 {
		cn.out.release()
		return
	}
	done := make(chan struct{})
	cn.out.writer = done
	cn.out.bufs = cn.out.parts
	to := cn.nc
	if !cn.tls() {
		to = cn.tcp // which gathers
	}
	go func() {
		_, cn.out.err = cn.out.bufs.WriteTo(to)
		close(done)
	}()
}

// finishSend ends the writer, if there is one, and tells whether the whole request was sent.
func (cn *conn) finishSend() bool {
	if cn.out.later { // the wait failed before anything was written
		cn.out.later = false
		cn.out.release()
		return false
	}
	if cn.out.writer == nil {
		return cn.out.err == nil
	}
	select {
	case <-cn.out.writer:
	default:
		// The answer is complete. Either the worker did not want the rest, which ends the connection, or all is written and the
		// writer has not run since.
		_ = cn.tcp.SetWriteDeadline(time.Unix(1, 0))
		<-cn.out.writer
		if cn.out.err == nil {
			cn.out.err = cn.tcp.SetWriteDeadline(time.Time{})
		}
	}
	cn.out.writer = nil
	cn.out.release()
	return cn.out.err == nil
}

// writeSmall sends a small request in one piece where the kernel cannot gather it (TLS, other systems); a large one is left
// to the writer goroutine whole.
func (cn *conn) writeSmall() {
	total := 0
	for _, p := range cn.out.parts {
		total += len(p)
	}
	if total > smallWrite {
		return
	}
	for _, p := range cn.out.parts[1:] {
		cn.head = append(cn.head, p...)
	}
	_, cn.out.err = cn.nc.Write(cn.head)
	cn.out.parts = nil
}
