package ingress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// goneEvents fire at most once a connection: the client hangs up, resets or closes its
	// sending side. A half-close counts: no HTTP client of ours needs the answer after it, and
	// until the router writes it looks like a close.
	goneEvents = unix.EPOLLRDHUP | unix.EPOLLHUP | unix.EPOLLERR | unix.EPOLLONESHOT
	// watchBatch is for clients that leave at the same moment; more come with the next call.
	watchBatch = 64
)

// Watcher tells when a client's connection ends while its request is being served. Go's poller
// tells readers only, and nobody may read here: the bytes could be the client's next request.
// An epoll of the Watcher's own holds the connections, and takes nothing away from Go's. The
// zero value is not usable.
type Watcher struct {
	file *os.File // the epoll, itself watched by Go's poller: waiting takes no thread
	raw  syscall.RawConn

	closed atomic.Bool // Go's own error for a closed poll descriptor of a file has no name

	mu      sync.Mutex
	watches map[uint64]leaver // guarded by mu; the key is the token in the event
	last    uint64            // guarded by mu
}

// NewWatcher returns a Watcher; Run makes it work, Close frees it.
func NewWatcher() (*Watcher, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("cannot create epoll: %w", err)
	}
	// os.NewFile gives a descriptor to Go's poller only if it does not block.
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

// Close ends Run and every watch.
func (w *Watcher) Close() error {
	if w.closed.Swap(true) {
		return nil
	}
	return w.file.Close()
}

// Run tells of clients that leave, until ctx ends or Close is called.
func (w *Watcher) Run(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() { _ = w.Close() })()
	events := make([]unix.EpollEvent, watchBatch)
	for {
		n := 0
		var pollErr error
		err := w.raw.Read(func(fd uintptr) bool {
			for {
				// The epoll must be drained before parking: Go's poller reports it once per
				// change.
				if n, pollErr = unix.EpollWait(int(fd), events, 0); !errors.Is(pollErr, unix.EINTR) {
					return n > 0 || pollErr != nil
				}
			}
		})
		switch {
		case err != nil && w.closed.Load():
			// A Close that meets a parked Read ends it with an error of the runtime's poller
			// without an exported name.
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

// fire tells of one event. A token is used once: an event that was queued for a connection
// whose descriptor has a new owner finds nothing.
func (w *Watcher) fire(token uint64) {
	w.mu.Lock()
	l := w.watches[token]
	delete(w.watches, token)
	w.mu.Unlock()
	if l != nil {
		l.left()
	}
}

// register has l told when nc's client leaves. The token names the connection in the epoll; 0: it
// is not there, for it is neither TCP nor TLS over it.
func (w *Watcher) register(nc net.Conn, l leaver) (token uint64, err error) {
	tcp := tcpBelow(nc)
	if tcp == nil {
		return 0, nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return 0, fmt.Errorf("cannot watch client: %w", err)
	}
	w.mu.Lock()
	w.last++
	token = w.last
	w.watches[token] = l
	w.mu.Unlock()
	if err := w.add(raw, token); err != nil {
		w.forget(token)
		if w.closed.Load() {
			err = ErrClosed
		}
		return 0, fmt.Errorf("cannot watch client: %w", err)
	}
	return token, nil
}

// forget makes events of a token go nowhere. Closing the connection takes it out of the epoll.
func (w *Watcher) forget(token uint64) {
	w.mu.Lock()
	delete(w.watches, token)
	w.mu.Unlock()
}

// add puts a connection into the epoll. The two Controls keep both descriptors from being
// closed, and so from being reused, meanwhile.
func (w *Watcher) add(raw syscall.RawConn, token uint64) (err error) {
	ev := unix.EpollEvent{Events: goneEvents}
	setToken(&ev, token)
	outer := raw.Control(func(fd uintptr) {
		inner := w.raw.Control(func(epfd uintptr) {
			err = unix.EpollCtl(int(epfd), unix.EPOLL_CTL_ADD, int(fd), &ev)
		})
		err = errors.Join(inner, err)
	})
	return errors.Join(outer, err)
}

// The token travels in the event's 64 bits of user data, which x/sys splits into two fields.
func token(ev *unix.EpollEvent) uint64 { return uint64(uint32(ev.Fd)) | uint64(uint32(ev.Pad))<<32 }

func setToken(ev *unix.EpollEvent, token uint64) {
	ev.Fd, ev.Pad = int32(uint32(token)), int32(uint32(token>>32))
}

// leaver is told, once, that a client has left.
type leaver interface{ left() }

// tcpBelow finds the TCP connection below wrappers (TLS, a listener's own type); nil if there
// is none.
func tcpBelow(nc net.Conn) *net.TCPConn {
	for {
		switch c := nc.(type) {
		case *net.TCPConn:
			return c
		case interface{ NetConn() net.Conn }:
			nc = c.NetConn()
		default:
			return nil
		}
	}
}
