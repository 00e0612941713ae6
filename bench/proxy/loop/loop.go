package loop

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"time"
)

// ErrClosed says that the connection was closed at this end.
var ErrClosed = errors.New("loop: closed")

const (
	// sharedSize bounds one read: more than the usual socket buffer of a loopback connection.
	sharedSize = 256 << 10
	// batch is how many events one wait can bring; more come with the next.
	batch = 512
)

// Loop waits for sockets and times, and calls their handlers.
type Loop struct {
	poll, wake int
	start      time.Time
	conns      []*Conn // by file descriptor
	listeners  map[int]func(c *Conn) Handler
	timers     timers
	events     []event
	shared     []byte // reads go here first; connections without leftovers need no memory
	quit       bool

	mu     sync.Mutex
	posted []func() // guarded by mu
	closed bool     // guarded by mu
}

// New returns a loop whose clock counts from start, so that several loops can have one.
func New(start time.Time) (*Loop, error) {
	poll, wake, err := openPoll()
	if err != nil {
		return nil, fmt.Errorf("cannot make an event loop: %w", err)
	}
	return &Loop{
		poll: poll, wake: wake, start: start, listeners: map[int]func(*Conn) Handler{},
		events: make([]event, batch), shared: make([]byte, sharedSize),
	}, nil
}

// Now is the time in nanoseconds since the clock's start.
func (l *Loop) Now() int64 { return int64(time.Since(l.start)) }

// Run serves until ctx ends or Stop is called, and closes everything. It runs once.
func (l *Loop) Run(ctx context.Context) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	sharpen()
	defer context.AfterFunc(ctx, l.Stop)()
	defer l.close()
	for !l.quit {
		n, err := wait(l.poll, l.events, l.patience())
		if err != nil {
			return fmt.Errorf("cannot wait for sockets: %w", err)
		}
		for i := range l.events[:n] {
			l.dispatch(int(l.events[i].Fd), l.events[i].Events)
		}
		l.fire()
	}
	return nil
}

// Stop ends Run. It may be called from any goroutine, and more than once.
func (l *Loop) Stop() { l.Post(func() { l.quit = true }) }

// Post has f called by the loop soon. After the end it is dropped.
func (l *Loop) Post(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.posted = append(l.posted, f)
	if len(l.posted) == 1 {
		ring(l.wake)
	}
}

func (l *Loop) runPosted() {
	silence(l.wake)
	l.mu.Lock()
	fs := l.posted
	l.posted = nil
	l.mu.Unlock()
	for _, f := range fs {
		f()
	}
}

func (l *Loop) dispatch(fd int, what uint32) {
	if fd == l.wake {
		l.runPosted()
		return
	}
	if accepted, ok := l.listeners[fd]; ok {
		l.accept(fd, accepted)
		return
	}
	// An event of a connection that an event before it closed finds none, or finds its successor,
	// which looks and sees nothing.
	if c := l.conns[fd]; c != nil {
		c.handle(what)
	}
}

// Listen accepts connections at addr, "host:port"; accepted makes the handler of each. It returns
// the address that it got.
func (l *Loop) Listen(addr string, accepted func(c *Conn) Handler) (string, error) {
	at, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		return "", fmt.Errorf("cannot listen: %w", err)
	}
	fd, port, err := listen(at)
	if err != nil {
		return "", fmt.Errorf("cannot listen at %s: %w", addr, err)
	}
	if err := watchListener(l.poll, fd); err != nil {
		closeFD(fd)
		return "", fmt.Errorf("cannot watch %s: %w", addr, err)
	}
	l.listeners[fd] = accepted
	at.Port = port
	return at.String(), nil
}

func (l *Loop) accept(ln int, accepted func(*Conn) Handler) {
	for {
		fd, err := accept(ln)
		if err != nil {
			// None left, or none to be had now: the listener is asked again with the next event.
			return
		}
		c := &Conn{loop: l, fd: fd}
		c.handler = accepted(c)
		if l.adopt(c) != nil {
			closeFD(fd)
		}
	}
}

// Dial begins to connect; the handler is told how that ends.
func (l *Loop) Dial(at *net.TCPAddr, h Handler) (*Conn, error) {
	fd, err := connect(at)
	if err != nil {
		return nil, fmt.Errorf("cannot connect to %v: %w", at, err)
	}
	c := &Conn{loop: l, fd: fd, handler: h, connecting: true}
	if err := l.adopt(c); err != nil {
		closeFD(fd)
		return nil, fmt.Errorf("cannot watch a connection to %v: %w", at, err)
	}
	return c, nil
}

func (l *Loop) adopt(c *Conn) error {
	for len(l.conns) <= c.fd {
		l.conns = append(l.conns, nil)
	}
	l.conns[c.fd] = c
	if err := watch(l.poll, c.fd); err != nil {
		l.conns[c.fd] = nil
		return err
	}
	return nil
}

// close closes all sockets. Handlers are told and count their unfinished requests.
func (l *Loop) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	for fd := range l.listeners {
		closeFD(fd)
	}
	for _, c := range l.conns {
		if c != nil {
			c.fail(io.ErrUnexpectedEOF)
		}
	}
	closeFD(l.wake)
	closeFD(l.poll)
}
