package load

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// connectTime is how long the first connections may take.
const connectTime = 30 * time.Second

// Run sends the load of cfg and returns its measurements; ctx ends it early, with an error.
func Run(ctx context.Context, cfg Config) (*Result, error) {
	if err := cfg.normal(); err != nil {
		return nil, err
	}
	at, err := cfg.resolve()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var threads []*thread
	start := time.Now()
	for i := range cfg.Threads {
		t, err := newThread(&cfg, i, start, at)
		if err != nil {
			return nil, err
		}
		threads = append(threads, t)
	}
	begin, end := cpuTime(), 0.0
	outer := cfg.Begin
	cfg.Begin = func() { begin = cpuTime(); outer() }
	last := cfg.End
	cfg.End = func() { end = cpuTime(); last() }

	var g errgroup.Group
	for _, t := range threads {
		g.Go(func() error { return t.run(ctx) })
	}
	if err := stand(ctx, threads); err != nil {
		cancel()
		return nil, errors.Join(err, g.Wait())
	}
	for i, t := range threads {
		t.loop.Post(func() { t.start(i == 0) })
	}
	stop := look(&cfg, threads)
	err = g.Wait()
	stop()
	if err == nil {
		err = ctx.Err()
	}
	total := &Result{Errors: map[string]uint64{}, CPU: end - begin}
	for _, t := range threads {
		total.merge(&t.result)
	}
	total.conclude(&cfg)
	return total, err
}

// stand waits until all early connections are made.
func stand(ctx context.Context, threads []*thread) error {
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	for _, t := range threads {
		select {
		case err := <-t.standing:
			if err != nil {
				return fmt.Errorf("%w: %w", ErrConnect, err)
			}
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ErrConnect, ctx.Err())
		}
	}
	return nil
}

// look tells of the progress until the function that it returns is called.
func look(cfg *Config, threads []*thread) (stop func()) {
	if cfg.Progress == nil {
		return func() {}
	}
	quit := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		began := time.Now()
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-quit:
				return
			}
			n := uint64(0)
			for _, t := range threads {
				n += t.answered.Load()
			}
			cfg.Progress(time.Since(began), n)
		}
	})
	return func() { close(quit); wg.Wait() }
}
