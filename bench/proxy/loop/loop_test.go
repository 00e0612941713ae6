package loop_test

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/bench/proxy/loop"
	"github.com/warmpath/warmpath/dataplane/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// patience is far beyond what anything here takes.
const patience = 3 * time.Minute

// start runs a loop until the test ends. What must happen in its goroutine is posted.
func start(t *testing.T) *loop.Loop {
	t.Helper()
	l, err := loop.New(time.Now())
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- l.Run(context.Background()) }()
	t.Cleanup(func() {
		l.Stop()
		require.NoError(t, <-done)
	})
	return l
}

// await gets a value, or fails the test.
func await[T any](t *testing.T, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(patience):
		t.Fatal("nothing came")
	}
	return v
}

// echo sends back what comes in whole pieces of size bytes.
type echo struct{ size int }

func (e *echo) Ready(*loop.Conn)         {}
func (e *echo) Closed(*loop.Conn, error) {}

func (e *echo) Data(c *loop.Conn, b []byte) (used int) {
	for ; len(b)-used >= e.size; used += e.size {
		_ = c.Write(b[used : used+e.size])
	}
	c.Need(e.size)
	return used
}

func listen(t *testing.T, l *loop.Loop, h func(*loop.Conn) loop.Handler) string {
	t.Helper()
	addr := make(chan string, 1)
	l.Post(func() {
		at, err := l.Listen("127.0.0.1:0", h)
		if err != nil {
			t.Error(err)
		}
		addr <- at
	})
	return await(t, addr)
}

func TestEcho(t *testing.T) {
	for _, size := range []int{1, 1000, 3 << 20} { // the last is more than sockets and the shared buffer hold
		l := start(t)
		addr := listen(t, l, func(*loop.Conn) loop.Handler { return &echo{size} })
		c, err := net.Dial("tcp", addr)
		require.NoError(t, err)
		defer c.Close()
		sent := make([]byte, 5*size)
		for i := range sent {
			sent[i] = byte(rand.Uint32())
		}
		go func() { _, _ = c.Write(sent) }()
		got := make([]byte, len(sent))
		require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
		_, err = io.ReadFull(c, got)
		require.NoError(t, err)
		require.True(t, bytes.Equal(sent, got), "pieces of %d bytes", size)
	}
}

// caller collects what a dialled connection gets.
type caller struct {
	ready  chan struct{}
	closed chan error
	got    chan []byte
}

func newCaller() *caller {
	return &caller{make(chan struct{}, 1), make(chan error, 1), make(chan []byte, 100)}
}

func (k *caller) Ready(*loop.Conn)             { k.ready <- struct{}{} }
func (k *caller) Closed(_ *loop.Conn, e error) { k.closed <- e }
func (k *caller) Data(_ *loop.Conn, b []byte) int {
	k.got <- bytes.Clone(b)
	return len(b)
}

// dial dials in the loop's goroutine and sends b at once, before the connection stands.
func dial(t *testing.T, l *loop.Loop, addr string, k *caller, b []byte) *loop.Conn {
	t.Helper()
	at, err := net.ResolveTCPAddr("tcp", addr)
	require.NoError(t, err)
	made := make(chan *loop.Conn, 1)
	l.Post(func() {
		c, err := l.Dial(at, k)
		if err == nil {
			err = c.Send(b)
		}
		if err != nil {
			t.Error(err)
		}
		made <- c
	})
	return await(t, made)
}

func TestDial(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	l := start(t)
	k := newCaller()
	dial(t, l, ln.Addr().String(), k, []byte("hello"))
	server, err := ln.Accept()
	require.NoError(t, err)
	await(t, k.ready)
	got := make([]byte, 5)
	_, err = io.ReadFull(server, got)
	require.NoError(t, err)
	require.Equal(t, "hello", string(got), "what was sent before the connection stood")
	_, err = server.Write([]byte("last words"))
	require.NoError(t, err)
	require.NoError(t, server.Close())
	require.Equal(t, "last words", string(await(t, k.got)))
	require.ErrorIs(t, await(t, k.closed), io.EOF)
}

func TestDialRefused(t *testing.T) {
	k := newCaller()
	dial(t, start(t), "127.0.0.1:1", k, nil) // a port that no other process is given, as it might one that was just closed
	require.Error(t, await(t, k.closed))
}

func TestCloseIsNotTold(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	l := start(t)
	k := newCaller()
	c := dial(t, l, ln.Addr().String(), k, nil)
	await(t, k.ready)
	result := make(chan error, 1)
	l.Post(func() {
		c.Close()
		c.Close()
		result <- c.Write([]byte("x"))
	})
	require.ErrorIs(t, await(t, result), loop.ErrClosed)
	require.Empty(t, k.closed)
}

// TestTimers holds the heap to sorting: timers fire in the order of their times, less those that are disarmed.
func TestTimers(t *testing.T) {
	l := start(t)
	r := rand.New(rand.NewPCG(1, 2))
	var fired, want []int64
	done := make(chan struct{})
	l.Post(func() {
		now := l.Now()
		var timers []*loop.Timer
		times := map[*loop.Timer]int64{}
		for i := range 1000 {
			at := now + int64(r.IntN(1000))*1000
			m := &loop.Timer{}
			m.F = func() { fired = append(fired, times[m]) }
			l.Arm(m, at)
			times[m] = at
			timers = append(timers, m)
			switch other := timers[r.IntN(i+1)]; i % 3 {
			case 0:
				l.Disarm(other)
				delete(times, other)
			case 1:
				l.Arm(other, at+1)
				times[other] = at + 1
			}
		}
		for _, at := range times {
			want = append(want, at)
		}
		l.Arm(&loop.Timer{F: func() { close(done) }}, now+int64(2*time.Millisecond)) // after all others
	})
	await(t, done)
	slices.Sort(want)
	require.Equal(t, want, fired)
}
