package mock

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/warmpath/warmpath/bench/proxy/loop"
)

// ErrConfig is a configuration that cannot be.
var ErrConfig = errors.New("mock: cannot be configured so")

// Config holds the number of workers and their behaviour.
type Config struct {
	// Host:port of the first worker, the others follow; port 0: the system picks them all.
	Listen   string
	Workers  int
	Model    string
	PageSize int // tokens
	// CachePages is how many pages each worker's cache holds.
	CachePages int
	// Events has each worker publish its cache's changes, and offer their replay, at ports that the
	// system picks.
	Events bool
	// Tokenize offers /v1/tokenize.
	Tokenize bool
	// TTFT is the time to the first byte of an answer, Gap that between two events of a stream.
	TTFT, Gap time.Duration
}

// Defaults of a Config: SGLang's usual page, and a cache of a small GPU.
const (
	DefaultPage  = 64
	DefaultPages = 16384
	DefaultModel = "mock"
)

// Stats counts the requests to all workers of a process.
type Stats struct {
	Requests    uint64 // prompts
	Control     uint64 // all other requests
	Bad         uint64 // of both, malformed ones
	Bytes       uint64 // bodies of prompts
	Prompt      uint64
	Cached      uint64
	Left        uint64 // streams that the client left
	Connections int
}

// Workers are mock workers on one event loop.
type Workers struct {
	cfg  Config
	loop *loop.Loop
	all  []*worker
}

// worker is one server.
type worker struct {
	in    *Workers
	addr  string
	cache *cache
	pub   *events // nil without events
	stats Stats
	ids   []uint32 // of the prompt at hand
	out   []byte   // an answer at hand
}

// New binds the ports and starts nothing. The streams of events stay open until Run has ended.
func New(cfg Config) (*Workers, error) {
	if cfg.Workers < 1 || cfg.PageSize < 1 || cfg.CachePages < 1 || cfg.TTFT < 0 || cfg.Gap < 0 {
		return nil, fmt.Errorf("cannot make %d workers of %d pages of %d tokens: %w", cfg.Workers, cfg.CachePages, cfg.PageSize, ErrConfig)
	}
	host, port, err := net.SplitHostPort(cfg.Listen)
	first, bad := strconv.Atoi(port)
	if err = errors.Join(err, bad); err != nil {
		return nil, fmt.Errorf("cannot listen at %q: %w: %w", cfg.Listen, ErrConfig, err)
	}
	l, err := loop.New(time.Now())
	if err != nil {
		return nil, err
	}
	w := &Workers{cfg: cfg, loop: l}
	for i := range cfg.Workers {
		at := first + i
		if first == 0 {
			at = 0
		}
		if err := w.add(net.JoinHostPort(host, strconv.Itoa(at))); err != nil {
			return nil, errors.Join(err, w.Close())
		}
	}
	return w, nil
}

func (w *Workers) add(addr string) error {
	k := &worker{in: w, cache: newCache(w.cfg.PageSize, w.cfg.CachePages)}
	host, _, _ := net.SplitHostPort(addr)
	if w.cfg.Events {
		var err error
		if k.pub, err = newEvents(host); err != nil {
			return err
		}
	}
	w.all = append(w.all, k)
	var err error
	k.addr, err = w.loop.Listen(addr, func(c *loop.Conn) loop.Handler {
		k.stats.Connections++
		h := &conn{worker: k, conn: c}
		h.next.F = h.more
		return h
	})
	return err
}

// Addrs are the workers' addresses, host:port.
func (w *Workers) Addrs() (addrs []string) {
	for _, k := range w.all {
		addrs = append(addrs, k.addr)
	}
	return addrs
}

// Run serves until ctx ends.
func (w *Workers) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var g errgroup.Group
	for _, k := range w.all {
		if k.pub != nil {
			g.Go(func() error { return k.pub.zmq.Run(ctx) })
		}
	}
	err := w.loop.Run(ctx)
	stop()
	return errors.Join(err, g.Wait())
}

// Close closes the listeners where Run was never called.
func (w *Workers) Close() error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return w.Run(ctx)
}

// Stats sums the counts of all workers; ok is false after the end of Run.
func (w *Workers) Stats(ctx context.Context) (s Stats, ok bool) {
	got := make(chan Stats, 1)
	w.loop.Post(func() { got <- w.sum() })
	select {
	case s = <-got:
		return s, true
	case <-ctx.Done():
		return Stats{}, false
	}
}

// sum belongs to the loop.
func (w *Workers) sum() (s Stats) {
	for _, k := range w.all {
		s.Requests += k.stats.Requests
		s.Control += k.stats.Control
		s.Bad += k.stats.Bad
		s.Bytes += k.stats.Bytes
		s.Prompt += k.stats.Prompt
		s.Cached += k.stats.Cached
		s.Left += k.stats.Left
		s.Connections += k.stats.Connections
	}
	return s
}
