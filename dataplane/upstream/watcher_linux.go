package upstream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// One event per watch at most; a client that hangs up, resets or closes its sending side is gone. A half-close counts:
	// no HTTP client of ours needs the answer after it, and it cannot be told from a close before we write.
	goneEvents = unix.EPOLLRDHUP | unix.EPOLLHUP | unix.EPOLLERR | unix.EPOLLONESHOT
	// Clients that leave at the same moment; more come with the next call.
	watchBatch = 64
)

// Watcher tells when a client's connection ends while its request is being served. Go's own poller only tells those who read,
// and nobody may read here: the bytes could be the client's next request. The connection's descriptor is put into an epoll of
// our own, which takes nothing away from Go's. The zero value is not usable.
type Watcher struct {
	file *os.File // the epoll, itself watched by Go's poller: waiting takes no thread
	raw  syscall.RawConn

	slow time.Duration // see Grace

	closed atomic.Bool // Go's own error for a closed poll descriptor of a file has no name

	mu      sync.Mutex
	watches map[uint64]leaver // guarded by mu; key is the token in the event
	last    uint64            // guarded by mu
}

// watch is one client connection for the length of one request.
type watch struct {
	w   *Watcher
	reg registration

	mu   sync.Mutex
	gone func() // guarded by mu; nil once called or stopped
}

// NewWatcher returns a Watcher; Run makes it work, Close frees it.
func NewWatcher() (*Watcher, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("cannot create epoll: %w", err)
	}
	// os.NewFile hands a descriptor to Go's poller only if it says that it does not block.
	if err := unix.SetNonblock(fd, true); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("cannot create epoll: %w", err)
	}
	w := &Watcher{file: os.NewFile(uintptr(fd), "epoll"), watches: make(map[uint64]leaver)}
	if w.raw, err = w.file.SyscallConn(); err != nil {
		_ = w.file.Close()
		return nil, fmt.Errorf("cannot create epoll: %w", err)
	}
	return w, nil
}

// Close ends Run and every watch. Calls of Watch afterwards return ErrClosed.
func (w *Watcher) Close() error {
	if w.closed.Swap(true) {
		return nil
	}
	return w.file.Close()
}

// Run calls back for clients that leave, until ctx ends or Close is called.
func (w *Watcher) Run(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() { _ = w.Close() })()
	events := make([]unix.EpollEvent, watchBatch)
	for {
		n := 0
		var pollErr error
		err := w.raw.Read(func(fd uintptr) bool {
			for {
				// Must be drained before parking: Go's poller reports the epoll once per change.
				if n, pollErr = unix.EpollWait(int(fd), events, 0); !errors.Is(pollErr, unix.EINTR) {
					return n > 0 || pollErr != nil
				}
			}
		})
		switch {
		case err != nil && w.closed.Load():
			// A Close that meets a parked Read ends it with an error of the runtime's poller that has no exported name.
			return nil
		case err != nil:
			return fmt.Errorf("cannot wait for epoll: %w", err)
		case pollErr != nil:
			return fmt.Errorf("cannot wait for epoll: %w", pollErr)
		}
		for i := range events[:n] {
			w.fire(token(&events[i]))
		}
	}
}

// fire calls back for one event. A token is used once, so an event that was queued for a connection whose descriptor has
// since been given to another finds nothing.
func (w *Watcher) fire(token uint64) {
	w.mu.Lock()
	l := w.watches[token]
	delete(w.watches, token)
	w.mu.Unlock()
	if l != nil {
		l.left()
	}
}

// Watch calls gone, once and from the Watcher's goroutine, when the client of nc has closed or reset the connection or its
// sending side; at once if it already has. More requests sent ahead do not count. gone must not block and must not call stop.
// When stop returns, gone is not running and will not be called. A connection is watched once at a time. Connections
// other than TCP, or TLS over it, are not watched; stop is never nil. It costs two system calls: Listen is the cheap way for
// a server's own clients.
func (w *Watcher) Watch(nc net.Conn, gone func()) (stop func(), err error) {
	wt := &watch{w: w, gone: gone}
	wt.reg, err = w.register(nc, wt)
	if err != nil || wt.reg.token == 0 {
		return nothing, err
	}
	return wt.stop, nil
}

// registration is a place in the epoll; the zero value is none.
type registration struct {
	raw   syscall.RawConn
	token uint64
}

// register has l told when nc's client leaves. A connection that cannot be watched gets a zero registration.
func (w *Watcher) register(nc net.Conn, l leaver) (registration, error) {
	tcp := unwrap(nc)
	if tcp == nil {
		return registration{}, nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return registration{}, fmt.Errorf("cannot watch client: %w", err)
	}
	w.mu.Lock()
	w.last++
	reg := registration{raw, w.last}
	w.watches[reg.token] = l
	w.mu.Unlock()
	ev := unix.EpollEvent{Events: goneEvents}
	setToken(&ev, reg.token)
	if err := w.control(raw, unix.EPOLL_CTL_ADD, &ev); err != nil {
		w.forget(reg)
		if w.closed.Load() {
			err = ErrClosed
		}
		return registration{}, fmt.Errorf("cannot watch client: %w", err)
	}
	return reg, nil
}

// forget makes events of reg go nowhere. Closing the connection takes it out of the epoll.
func (w *Watcher) forget(reg registration) {
	w.mu.Lock()
	delete(w.watches, reg.token)
	w.mu.Unlock()
}

// control changes the epoll. The two Controls keep both descriptors from being closed, and so from being reused, meanwhile.
func (w *Watcher) control(raw syscall.RawConn, op int, ev *unix.EpollEvent) (err error) {
	outer := raw.Control(func(fd uintptr) {
		inner := w.raw.Control(func(epfd uintptr) {
			err = unix.EpollCtl(int(epfd), op, int(fd), ev)
		})
		err = errors.Join(inner, err)
	})
	return errors.Join(outer, err)
}

// left calls back, unless stop was first.
func (wt *watch) left() {
	wt.mu.Lock()
	defer wt.mu.Unlock()
	if wt.gone != nil {
		wt.gone()
		wt.gone = nil
	}
}

// stop ends the watch. A connection that is closed by now has left the epoll by itself; asking by its old number could hit
// another's, so Control, which refuses a closed connection, stands in between.
func (wt *watch) stop() {
	wt.mu.Lock()
	wt.gone = nil
	wt.mu.Unlock()
	wt.w.forget(wt.reg)
	_ = wt.w.control(wt.reg.raw, unix.EPOLL_CTL_DEL, nil)
}

// The token travels in the event's 64 bits of user data, which x/sys splits into two fields.
func token(ev *unix.EpollEvent) uint64 { return uint64(uint32(ev.Fd)) | uint64(uint32(ev.Pad))<<32 }

func setToken(ev *unix.EpollEvent, token uint64) {
	ev.Fd, ev.Pad = int32(uint32(token)), int32(uint32(token>>32))
}
