package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/warmpath/warmpath/bench/sim"
	"github.com/warmpath/warmpath/dataplane"
)

// cluster is simulated workers and a router in front of them, in this process.
type cluster struct {
	router *dataplane.Dataplane
	sims   []*sim.Worker
}

// newCluster binds everything and starts nothing.
func newCluster(workers int, worker sim.Config, router dataplane.Config) (*cluster, error) {
	c := &cluster{}
	for i := range workers {
		w, err := sim.New(worker)
		if err != nil {
			return nil, fmt.Errorf("cannot simulate worker %d: %w", i, err)
		}
		c.sims = append(c.sims, w)
		router.Workers = append(router.Workers, w.URL())
	}
	var err error
	if c.router, err = dataplane.New(router); err != nil {
		return nil, err
	}
	return c, nil
}

// run serves until ctx ends. The workers outlive the router: it drains what
// they have begun.
func (c *cluster) run(ctx context.Context) error {
	workers, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var g errgroup.Group
	for _, w := range c.sims {
		g.Go(func() error { return w.Run(workers) })
	}
	err := c.router.Run(ctx)
	stop()
	if werr := g.Wait(); err == nil {
		err = werr
	}
	return err
}

// clusterStart bounds how long simulated workers may take until the router has found them; it takes about 0.1 s.
const clusterStart = 30 * time.Second

// waitReady returns when every worker is ready in the router's eyes.
func (c *cluster) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, clusterStart)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		ready := 0
		for _, w := range c.router.Status().Workers {
			if w.State == "ready" {
				ready++
			}
		}
		if ready >= len(c.sims) {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("cannot start the cluster: %d of %d workers are ready: %w", ready, len(c.sims), ctx.Err())
		}
	}
}

// quietLogger shows what needs an operator and nothing else: commands that
// draw their own picture share the terminal with it.
func quietLogger() *slog.Logger {
	log, _ := newLogger("warn")
	return log
}
