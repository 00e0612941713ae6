package router

import (
	"fmt"

	"github.com/warmpath/warmpath/dataplane/cluster"
	"github.com/warmpath/warmpath/dataplane/routing"
	"github.com/warmpath/warmpath/dataplane/routing/peers"
)

// What routers of one cluster tell each other.
const (
	ReplicasAuto = "auto" // all that lets them choose as one; nothing without a cluster
	ReplicasOff  = "off"  // nothing
)

func checkReplicas(c *Config) error {
	if c.Replicas != ReplicasAuto && c.Replicas != ReplicasOff {
		return fmt.Errorf("cannot use --replicas %q: want %s or %s", c.Replicas, ReplicasAuto, ReplicasOff)
	}
	return nil
}

// newGroup lets router choose as one with the other routers of the cluster; nil: it is alone.
func (d *Router) newGroup(router *routing.Router) *peers.Group {
	if d.cfg.Cluster == nil || d.cfg.Replicas == ReplicasOff {
		return nil
	}
	g := peers.New(peers.Config{ID: d.cfg.Cluster.Instance(), Bus: d.cfg.Cluster, Registry: d.registry, Chooser: router, Predictions: &router.Shared, Log: d.cfg.Log})
	router.Peers = g
	return g
}

// announce tells the cluster of this router.
func (d *Router) announce() {
	c := d.cfg.Cluster
	if c == nil {
		return
	}
	err := c.AnnounceReplica(cluster.Replica{
		ID: c.Instance(), Addr: d.Addr(), Operator: d.OperatorAddr(), Version: d.cfg.Version, Started: d.started, Workers: d.keeper.ownWorkers(),
	})
	if err != nil {
		d.cfg.Log.Warn("cannot tell the cluster of this router", "error", err)
	}
}
