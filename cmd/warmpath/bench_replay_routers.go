package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/warmpath/warmpath/bench/sim"
	shared "github.com/warmpath/warmpath/dataplane/cluster"
	"github.com/warmpath/warmpath/dataplane/router"
)

// routers are several routers in this process, with the same simulated workers and a NATS of their
// own.
type routers struct {
	simulation
	nats []*shared.Cluster // one for each router; the first has the server inside
	all  []*router.Router
}

// newRouters binds all listeners and starts NATS only.
func newRouters(ctx context.Context, n, workers int, worker sim.Config, cfg router.Config) (*routers, error) {
	r := &routers{}
	if err := r.add(workers, worker, "", &cfg.Sources.Workers); err != nil {
		return r, err
	}
	var where []string
	for range n {
		c, err := shared.Open(ctx, shared.Config{URLs: where, Log: cfg.Log})
		if err != nil {
			return r, fmt.Errorf("cannot open the cluster: %w", err)
		}
		r.nats = append(r.nats, c)
		where = []string{r.nats[0].URL()}
		one := cfg
		one.Cluster.Conn = c
		router, err := router.New(one)
		if err != nil {
			return r, fmt.Errorf("cannot start router %d: %w", len(r.all), err)
		}
		r.all = append(r.all, router)
	}
	return r, nil
}

// abandon closes all that newRouters has opened.
func (r *routers) abandon() {
	for _, router := range r.all {
		router.Close()
	}
	r.simulation.abandon()
	r.close()
}

// run serves until ctx ends.
func (r *routers) run(ctx context.Context) error {
	defer r.close()
	return r.runWorkers(ctx, func(ctx context.Context) error {
		var all errgroup.Group
		for _, router := range r.all {
			all.Go(func() error { return router.Run(ctx) })
		}
		return all.Wait()
	})
}

// close leaves the cluster; the router with the NATS server leaves last.
func (r *routers) close() {
	for i := range r.nats {
		_ = r.nats[len(r.nats)-1-i].Close()
	}
}

// urls lists the routers' addresses for replay.Run.
func (r *routers) urls() string {
	list := make([]string, len(r.all))
	for i, router := range r.all {
		list[i] = "http://" + router.Addr()
	}
	return strings.Join(list, ",")
}

// ready reports whether each router knows all workers and all other routers.
func (r *routers) ready() bool {
	for _, router := range r.all {
		st := router.Status()
		if readyWorkers(router) < len(r.sims) || (st.Replicas != nil && len(st.Replicas.Peers) < len(r.all)-1) {
			return false
		}
	}
	return true
}

// tell writes how much the routers told each other.
func (r *routers) tell(w io.Writer) {
	for i, router := range r.all {
		if st := router.Status().Replicas; st != nil {
			fmt.Fprintf(w, "router %d: %d messages of %d bytes in the mean\n", i, st.Published, st.PublishedBytes/max(st.Published, 1))
		}
	}
}

// severalRouters starts simulated workers and routers for them, and waits until all know each
// other.
func (o *replayOptions) severalRouters(ctx context.Context, worker sim.Config, router router.Config) (*benchCluster, error) {
	r, err := newRouters(ctx, o.routers, o.workers, worker, router)
	if err != nil {
		r.abandon()
		return nil, err
	}
	b := runBench(ctx, r.urls(), r.run)
	end := b.close
	b.close = func() error {
		r.tell(o.notes)
		return end()
	}
	if err := awaitStart(ctx, r.ready); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot start %d routers: %w", o.routers, err), b.close())
	}
	return b, nil
}
