package main

import (
	"context"
	"fmt"
	"log/slog"

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

// quietLogger shows what needs an operator and nothing else: commands that
// draw their own picture share the terminal with it.
func quietLogger() *slog.Logger {
	log, _ := newLogger("warn")
	return log
}
