package ingress

import (
	"io"

	"github.com/warmpath/warmpath/dataplane/socket"
)

// heldWrites gathers writes to a client, so that they leave in one.
type heldWrites struct {
	out     io.Writer // the socket, or TLS over it
	holding bool
	b       []byte // in buffer unless it outgrew it
	buffer  *socket.Buffer
}

// write writes p, behind the bytes that are held, or holds it.
func (w *heldWrites) write(p []byte) (int, error) {
	if !w.holding && w.buffer == nil {
		return w.out.Write(p)
	}
	if w.buffer == nil {
		w.buffer = socket.TakeBuffer()
		w.b = w.buffer[:0]
	}
	w.b = append(w.b, p...)
	if w.holding {
		return len(p), nil
	}
	if err := w.flush(); err != nil {
		return 0, err
	}
	return len(p), nil
}

// flush writes the bytes that are held.
func (w *heldWrites) flush() error {
	w.holding = false
	if w.buffer == nil {
		return nil
	}
	_, err := w.out.Write(w.b)
	w.buffer.Release()
	w.b, w.buffer = nil, nil
	return err
}
