package zmq

import (
	"context"
	"errors"
	"sync"

	zmq4 "github.com/pebbe/zmq4"
)

// lifetime is a libzmq context of one's own, a goroutine that owns its sockets, and the way to wake it.
type lifetime struct {
	mu      sync.Mutex // guards the following fields
	zctx    *zmq4.Context
	wake    *waker
	closed  bool // No more work: Run ends.
	running bool // Run has begun, or nobody may begin it any more.
}

// open makes the context and the waker.
func (l *lifetime) open() error {
	c, err := newContext()
	if err != nil {
		return err
	}
	w, err := newWaker(c)
	if err != nil {
		return errors.Join(err, c.Term())
	}
	l.zctx, l.wake = c, w
	return nil
}

// begin claims the sockets for Run and stops it when ctx is done; the caller calls end when its loop is over.
func (l *lifetime) begin(ctx context.Context) (end func() bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.running:
		return nil, ErrRunning
	case l.closed:
		return nil, ErrClosed
	}
	l.running = true
	return context.AfterFunc(ctx, l.stop), nil
}

// stop asks Run to end.
func (l *lifetime) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.wake.wakeLocked()
}

// claim reports whether the caller is the one to free what Run will never own.
func (l *lifetime) claim() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running {
		return false
	}
	l.running = true
	return true
}

// awakeLocked begins a turn of Run: it takes the wake-ups off and returns with mu held, so that what is queued until then
// is seen by this turn and what is queued afterwards wakes the next.
func (l *lifetime) awakeLocked() {
	l.wake.drain()
	l.mu.Lock()
	l.wake.pending = false
}

// release closes sockets and then the context, which waits for libzmq's threads. Nobody else uses them any more.
func (l *lifetime) release(sockets ...*zmq4.Socket) error {
	l.mu.Lock()
	l.closed = true
	errs := []error{l.wake.close()}
	for _, s := range sockets {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	l.mu.Unlock()
	return errors.Join(append(errs, l.zctx.Term())...)
}
