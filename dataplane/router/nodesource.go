package router

import (
	"context"

	"github.com/warmpath/warmpath/dataplane/cluster"
	"github.com/warmpath/warmpath/dataplane/fleet/discover"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

// nodeSources is the node in this process as a source of workers, where there is one.
func (d *Router) nodeSources() []discover.Source {
	if d.cfg.Node == nil {
		return nil
	}
	return []discover.Source{d.cfg.Node.Source()}
}

// followNode takes over what the node in this process knows of its workers' GPUs, which needs no cluster, until ctx ends.
func (d *Router) followNode(ctx context.Context) error {
	d.cfg.Node.Source().Health(ctx, func(url string, h cluster.Health) bool {
		w, err := d.registry.Get(url)
		if err != nil {
			return false // the keeper has not added it yet, or an operator has removed it
		}
		w.SetHealth(nodeHealth(&h))
		return true
	})
	return nil
}

// nodeHealth is a node's word in the registry's form.
func nodeHealth(h *cluster.Health) worker.Health {
	state, _ := worker.ParseGPUState(h.State)
	return worker.Health{State: state, Weight: h.Weight, NoTP: h.NoTP, Free: h.Free, Reasons: h.Reasons}
}
