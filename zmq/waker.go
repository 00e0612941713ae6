package zmq

import (
	"errors"

	zmq4 "github.com/pebbe/zmq4"
)

// waker interrupts a poll from another goroutine through a pair of inproc sockets. Its user's mutex guards wake and
// pending; in belongs to the polling goroutine.
type waker struct {
	in, out *zmq4.Socket
	pending bool // A wake-up is on its way: one is enough.
}

const wakeEndpoint = "inproc://wake" // Inproc names are local to a context.

func newWaker(c *zmq4.Context) (*waker, error) {
	in, err := c.NewSocket(zmq4.PAIR)
	if err != nil {
		return nil, err
	}
	out, err := c.NewSocket(zmq4.PAIR)
	if err != nil {
		return nil, errors.Join(err, in.Close())
	}
	w := &waker{in: in, out: out}
	err = each(
		func() error { return in.SetLinger(0) },
		func() error { return out.SetLinger(0) },
		func() error { return in.Bind(wakeEndpoint) },
		func() error { return out.Connect(wakeEndpoint) },
	)
	if err != nil {
		return nil, errors.Join(err, w.close())
	}
	return w, nil
}

// wakeLocked makes the poll return. A full or closed pair means that the poll is awake or over.
func (w *waker) wakeLocked() {
	if w.pending || w.out == nil {
		return
	}
	_, err := w.out.SendBytes(nil, zmq4.DONTWAIT)
	w.pending = err == nil
}

// drain reads the wake-ups; the caller then takes the mutex and resets pending before it looks at the queue.
func (w *waker) drain() {
	for {
		if _, err := w.in.RecvBytes(zmq4.DONTWAIT); err != nil {
			return
		}
	}
}

// close needs the mutex and the end of the polling goroutine.
func (w *waker) close() error {
	if w.out == nil {
		return nil
	}
	err := errors.Join(w.in.Close(), w.out.Close())
	w.in, w.out = nil, nil
	return err
}
