package load

import (
	"context"
	"errors"
	"sync"
	"time"
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
	t, err := newThread(&cfg, at)
	if err != nil {
		return nil, err
	}
	begin, end := cpuTime(), 0.0
	outer, last := cfg.Begin, cfg.End
	cfg.Begin = func() { begin = cpuTime(); outer() }
	cfg.End = func() { end = cpuTime(); last() }
	stop := look(&cfg, t)
	err = t.loop.Run(ctx)
	stop()
	if t.failed != nil {
		return nil, errors.Join(ctx.Err(), t.failed)
	}
	if err == nil {
		err = ctx.Err()
	}
	t.result.CPU = end - begin
	t.result.conclude(&cfg)
	return &t.result, err
}

// look tells of the progress until the function that it returns is called.
func look(cfg *Config, t *thread) (stop func()) {
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
				cfg.Progress(time.Since(began), t.answered.Load())
			case <-quit:
				return
			}
		}
	})
	return func() { close(quit); wg.Wait() }
}
