package upstream

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warmpath/warmpath/dataplane/socket"
)

// responseReader reads the answers on a connection. It waits without a buffer where it can: a
// stream waits for most of its life.
type responseReader struct {
	nc      net.Conn
	raw     syscall.RawConn // waits without a buffer; nil: TLS, or another system than Linux
	readers *sync.Pool      // of br
	br      *bufio.Reader   // over the responseReader; nil while idle, and while a wait needs none

	wait     time.Duration // longest wait of one read; 0 is forever
	deadline time.Time     // the one that the poller has
	got      int64         // bytes read since the connection was opened
	err      error         // the first failure of a read
	now      time.Time     // for the next call of clock

	fillFn  func(fd uintptr) bool // a method value made once: a closure per call is an allocation
	fillErr error                 // of tryFill
	filling uintptr               // 1 + the descriptor that Read reads without waiting; 0: it waits
	// Bytes that Read returns first: the relay has read and counted them.
	handed []byte
}

var _ io.Reader = (*responseReader)(nil)

// Read reads from the worker with the current wait as its time limit.
func (r *responseReader) Read(p []byte) (int, error) {
	if r.filling > 0 {
		return r.readNow(p)
	}
	if len(r.handed) > 0 {
		return copy(p, r.handed), nil
	}
	if err := r.arm(); err != nil {
		r.err = err
		return 0, err
	}
	n, err := r.nc.Read(p)
	return r.note(n, err)
}

// note counts the result of a read.
func (r *responseReader) note(n int, err error) (int, error) {
	r.got += int64(n)
	if err != nil && r.err == nil {
		r.err = err
	}
	return n, err
}

// fill waits until there is a byte in the read buffer.
func (r *responseReader) fill() error {
	if r.buffered() > 0 {
		return nil
	}
	if r.raw == nil {
		r.acquire()
		_, err := r.br.Peek(1)
		return err
	}
	if err := r.arm(); err != nil {
		_, err = r.note(0, err)
		return err
	}
	r.release()
	r.fillErr = nil
	if err := r.raw.Read(r.fillFn); err != nil { // the deadline, or abort
		_, err = r.note(0, err)
		return err
	}
	return r.fillErr
}

// tryFill fills the buffer, and reports whether there is nothing to wait for. The poller calls
// it before it waits and when there is something to read. The first call finds no answer yet, but
// perhaps the end of the connection, of which the poller tells only once: a server that has closed
// only its sending side never resets.
func (r *responseReader) tryFill(fd uintptr) bool {
	r.acquire()
	r.filling = fd + 1
	_, r.fillErr = r.br.Peek(1)
	r.filling = 0
	if errors.Is(r.fillErr, unix.EAGAIN) {
		r.release()
		return false
	}
	return true
}

// readNow is Read within tryFill.
func (r *responseReader) readNow(p []byte) (int, error) {
	n, err := socket.Receive(r.filling-1, p)
	switch {
	case errors.Is(err, unix.EAGAIN):
		return 0, err
	case err == nil && n == 0:
		err = io.EOF
	}
	return r.note(n, err)
}

// buffered returns how many bytes can be read without asking the kernel.
func (r *responseReader) buffered() int {
	if r.br == nil {
		return 0
	}
	return r.br.Buffered()
}

// consumed counts the bytes that were taken out of the read buffer.
func (r *responseReader) consumed() int64 { return r.got - int64(r.buffered()) }

// acquire takes a read buffer.
func (r *responseReader) acquire() {
	if r.br == nil {
		r.br = r.readers.Get().(*bufio.Reader)
		r.br.Reset(r)
	}
}

// release gives the read buffer back.
func (r *responseReader) release() {
	if r.br == nil {
		return
	}
	r.br.Reset(nil)
	r.readers.Put(r.br)
	r.br = nil
}

// hand puts bytes into the read buffer, as many as there is room for.
func (r *responseReader) hand(p []byte) {
	r.acquire()
	r.handed = p
	_, _ = r.br.Peek(1)
	r.handed = nil
}

// arm renews the read deadline. Telling the poller costs more than the rest of a small read: a
// deadline lies up to an eighth of the wait too far in the future, and stays while it covers
// the wait.
func (r *responseReader) arm() error {
	if r.wait <= 0 {
		r.now = time.Time{}
		if r.deadline.IsZero() {
			return nil
		}
		r.deadline = time.Time{}
		return r.nc.SetReadDeadline(r.deadline)
	}
	now, slack := r.clock(), r.wait/8
	if left := r.deadline.Sub(now); left >= r.wait && left <= r.wait+slack {
		return nil
	}
	r.deadline = now.Add(r.wait + slack)
	return r.nc.SetReadDeadline(r.deadline)
}

// armWithin has a wait end after every, and at the wait's limit.
func (r *responseReader) armWithin(now time.Time, every time.Duration) error {
	if left := r.deadline.Sub(now); left > 0 && left <= every {
		return nil
	}
	r.deadline = now.Add(every)
	return r.nc.SetReadDeadline(r.deadline)
}

// clock returns the time: the one that the caller has just read and set, once, else the
// clock's.
func (r *responseReader) clock() time.Time {
	now := r.now
	if r.now = (time.Time{}); now.IsZero() {
		now = time.Now()
	}
	return now
}

// timedOut reports whether a wait has met its deadline.
func timedOut(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }
