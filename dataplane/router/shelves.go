package router

import (
	"github.com/warmpath/warmpath/dataplane/kvtier/directory"
	"github.com/warmpath/warmpath/dataplane/routing"
)

// newShelves lets router count what the KV tiers of the cluster's nodes hold; nil: there is no cluster.
func (d *Router) newShelves(router *routing.Router) *directory.Index {
	if d.cfg.Cluster == nil {
		return nil
	}
	x := directory.New(directory.Config{
		Bus: d.cfg.Cluster, Log: d.cfg.Log, Hash: func(ids []uint32) uint64 { return uint64(d.index.HashBlock(ids)) },
	})
	router.Tiers = x
	return x
}

// share lets router choose by what the cluster's nodes hold and by the links between them, and tell them what to pull.
func (d *Router) share(router *routing.Router) {
	d.places = newPlaces(d.registry, router)
	if d.shelves = d.newShelves(router); d.shelves != nil {
		d.places.told = d.shelves.SetPlaces
	}
	d.hints = d.newHints(router)
}
