package router

import (
	"context"
	"time"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

// startPatience is, where Config says nothing else, for how long a router that starts leaves its connections waiting until it knows the cluster's workers: without
// that a restarted router, which has no list of its own, would answer 503 for the second that its first look takes. It takes
// 0.5 to 1.5 s; where NATS is away, clients are told that there is no worker after this time.
const startPatience = 3 * time.Second

// startLook is the time between two looks at the workers.
const startLook = 10 * time.Millisecond

// awaitCluster returns when the workers that the cluster names were probed once, or after ClusterWait. The listeners are bound,
// so that connections wait in the kernel.
func (d *Router) awaitCluster(ctx context.Context) {
	if d.cfg.Cluster == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, d.cfg.ClusterWait)
	defer cancel()
	if err := d.cfg.Cluster.WaitUp(ctx); err != nil {
		d.cfg.Log.Warn("the cluster is not known yet: serving without its workers", "error", err)
		return
	}
	d.keeper.mark(d.cfg.Cluster.View().Marks)
	tick := time.NewTicker(startLook)
	defer tick.Stop()
	for !d.probed() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// probed tells whether the workers of the cluster, if it has some, are known and have answered a probe or failed it.
func (d *Router) probed() bool {
	named := false
	for _, n := range d.cfg.Cluster.View().Nodes {
		named = named || len(n.Workers) > 0
	}
	known := d.registry.Snapshot().Workers
	if named && len(known) == 0 {
		return false
	}
	for _, w := range known {
		if w.State() == worker.Probing {
			return false
		}
	}
	return true
}
