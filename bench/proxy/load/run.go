package load

import (
	"context"
	"errors"
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
	err = t.loop.Run(ctx)
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
