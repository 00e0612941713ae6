package main

import (
	"log/slog"

	"github.com/warmpath/warmpath/dataplane/cluster"
	"github.com/warmpath/warmpath/dataplane/kvtier/hint"
	kvtier "github.com/warmpath/warmpath/dataplane/kvtier/store"
)

// hearHints lets the tier of a node, which may be nil, hear what routers of its cluster say comes to the node's engines.
func hearHints(t *kvtier.Store, shared *cluster.Cluster, node string, log *slog.Logger) (stop func()) {
	if t == nil || shared == nil {
		return func() {}
	}
	stop, err := shared.Subscribe(hint.Subject(node), t.Hinted)
	if err != nil {
		log.Warn("cannot hear routers' hints: pages are pulled when engines ask for them", "error", err)
		return func() {}
	}
	return stop
}
