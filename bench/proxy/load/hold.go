package load

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/bench/proxy/loop"
)

// Hold is many connections that were used once and are left open.
type Hold struct {
	cfg    *Config
	loop   *loop.Loop
	writer *writer
	cancel context.CancelFunc
	wg     sync.WaitGroup

	// Of the loop's goroutine.
	left int // still to be opened

	open, lost, failed atomic.Int64
	first              error // failure; written by the loop before failed
	changed            chan struct{}
}

// atOnce bounds how many connections are being opened at a time, so that the target's backlog does
// not overflow.
const atOnce = 128

// OpenHold opens n connections to the first target, each of which gets one small prompt, and
// returns when all have been answered. progress, which may be nil, is told how many have been.
func OpenHold(ctx context.Context, target string, a API, n int, progress func(open int)) (*Hold, error) {
	cfg := &Config{Targets: []string{target}, API: a, Size: minSize, Tokens: 1, Connections: n, Time: 1, Seed: 1 << 40}
	if err := cfg.normal(); err != nil {
		return nil, err
	}
	at, err := cfg.resolve()
	if err != nil {
		return nil, err
	}
	l, err := loop.New(time.Now())
	if err != nil {
		return nil, err
	}
	h := &Hold{cfg: cfg, loop: l, writer: newWriter(cfg, 0), left: n, changed: make(chan struct{}, 1)}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	h.cancel = cancel
	h.wg.Go(func() {
		if err := l.Run(running); err != nil {
			cancel() // pending dials fail
		}
	})
	l.Post(func() {
		for range min(n, atOnce) {
			h.another(at[0])
		}
	})
	for {
		open, failed := int(h.open.Load()), int(h.failed.Load())
		if open+failed == n {
			break
		}
		if progress != nil {
			progress(open)
		}
		select {
		case <-h.changed:
		case <-ctx.Done():
			h.Close()
			return nil, fmt.Errorf("cannot open %d connections, %d are: %w", n, open, ctx.Err())
		}
	}
	if failed := h.failed.Load(); failed > 0 {
		h.Close()
		return nil, fmt.Errorf("cannot open %d of %d connections: %w: %w", failed, n, ErrConnect, h.first)
	}
	return h, nil
}

// another opens the next connection.
func (h *Hold) another(at *net.TCPAddr) {
	if h.left == 0 {
		return
	}
	h.left--
	k := &held{h: h, at: at}
	c, err := h.loop.Dial(at, k)
	if err == nil {
		err = c.Write(k.request())
	}
	if err != nil {
		k.opened(err)
	}
}

// held is one connection.
type held struct {
	h    *Hold
	at   *net.TCPAddr
	r    response
	idle bool
}

func (k *held) request() []byte {
	body := k.h.writer.unique(nil)
	return fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		k.h.cfg.API.path(), k.at, len(body), body)
}

// opened counts a connection that is idle now, or failed.
func (k *held) opened(err error) {
	if k.idle = err == nil; k.idle {
		k.h.open.Add(1)
	} else {
		if k.h.first == nil {
			k.h.first = err
		}
		k.h.failed.Add(1)
	}
	select {
	case k.h.changed <- struct{}{}:
	default:
	}
	k.r = response{} // its memory is not needed any more
	k.h.another(k.at)
}

// Ready implements [loop.Handler].
func (k *held) Ready(*loop.Conn) {}

// Closed implements [loop.Handler].
func (k *held) Closed(_ *loop.Conn, err error) {
	if k.idle {
		k.h.lost.Add(1)
		return
	}
	k.opened(err)
}

// Data implements [loop.Handler].
func (k *held) Data(c *loop.Conn, b []byte) int {
	if k.idle {
		return len(b)
	}
	used, err := k.r.feed(b)
	if err == nil && k.r.ended {
		if err = k.r.check(false, 1, nil); k.r.status != statusOK {
			err = fmt.Errorf("status %d", k.r.status)
		}
	}
	switch {
	case err != nil:
		c.Close()
		k.opened(err)
	case k.r.ended:
		k.opened(nil)
	}
	return used
}

// Lost is how many connections the other side has closed.
func (h *Hold) Lost() int { return int(h.lost.Load()) }

// Close closes all connections.
func (h *Hold) Close() {
	h.cancel()
	h.wg.Wait()
}
