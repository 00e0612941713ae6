package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/warmpath/warmpath/bench/sim"
	"github.com/warmpath/warmpath/dataplane/router"
)

// simulation is simulated workers and a router in front of them, in this process.
type simulation struct {
	router *router.Router
	sims   []*sim.Worker
}

// clusterSize is how many simulated workers of each role a cluster has.
type clusterSize struct{ workers, prefill, decode int }

// check refuses sizes without a worker or pair that answers.
func (f clusterSize) check() error {
	switch {
	case min(f.workers, f.prefill, f.decode) < 0 || f.workers+f.prefill+f.decode == 0:
		return fmt.Errorf("cannot start %d workers, %d prefill, %d decode", f.workers, f.prefill, f.decode)
	case (f.prefill == 0) != (f.decode == 0):
		return fmt.Errorf("cannot pair %d prefill workers with %d decode workers", f.prefill, f.decode)
	}
	return nil
}

// newCluster binds all listeners and starts nothing.
func newCluster(f clusterSize, worker sim.Config, cfg router.Config) (*simulation, error) {
	c := &simulation{}
	err := errors.Join(
		c.add(f.workers, worker, "", &cfg.Sources.Workers),
		c.add(f.prefill, worker, sim.ModePrefill, &cfg.Sources.Prefill),
		c.add(f.decode, worker, sim.ModeDecode, &cfg.Sources.Decode),
	)
	if err != nil {
		c.abandon()
		return nil, err
	}
	if c.router, err = router.New(cfg); err != nil {
		return nil, err
	}
	return c, nil
}

// abandon closes workers that never ran.
func (c *simulation) abandon() {
	for _, w := range c.sims {
		w.Close()
	}
}

// add binds n workers of one mode and tells the router of them.
func (c *simulation) add(n int, worker sim.Config, mode string, urls *[]string) error {
	worker.Mode = mode
	for range n {
		w, err := sim.New(worker)
		if err != nil {
			return fmt.Errorf("cannot simulate worker %d: %w", len(c.sims), err)
		}
		c.sims = append(c.sims, w)
		*urls = append(*urls, w.URL())
	}
	return nil
}

// run serves until ctx ends.
func (c *simulation) run(ctx context.Context) error { return c.runWorkers(ctx, c.router.Run) }

// runWorkers runs the workers as long as route, which drains requests at them when ctx ends.
func (c *simulation) runWorkers(ctx context.Context, route func(context.Context) error) error {
	workers, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var g errgroup.Group
	for _, w := range c.sims {
		g.Go(func() error { return w.Run(workers) })
	}
	err := route(ctx)
	stop()
	return errors.Join(err, g.Wait())
}

// clusterStart bounds how long simulated workers may take until the router has found them; it takes
// about 0.1 s.
const clusterStart = 30 * time.Second

// waitReady returns when the router reports every worker as ready.
func (c *simulation) waitReady(ctx context.Context) error {
	ready := 0
	err := awaitStart(ctx, func() bool {
		ready = readyWorkers(c.router)
		return ready >= len(c.sims)
	})
	if err != nil {
		return fmt.Errorf("cannot start the cluster: %d of %d workers are ready: %w", ready, len(c.sims), err)
	}
	return nil
}

// readyWorkers counts the workers that a router may use.
func readyWorkers(r *router.Router) (n int) {
	for _, w := range r.Status().Workers {
		if w.State == "ready" {
			n++
		}
	}
	return n
}

// awaitStart returns when all is ready.
func awaitStart(ctx context.Context, ready func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, clusterStart)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ready() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// quietLogger shows warnings and errors only: commands that
// draw their own picture share the terminal with it.
func quietLogger() *slog.Logger {
	log, _, _ := newLogger("warn", formatText)
	return log
}
