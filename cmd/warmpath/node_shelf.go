package main

import (
	"log/slog"
	"os"

	"github.com/warmpath/warmpath/dataplane/cluster"
	"github.com/warmpath/warmpath/dataplane/kvtier/announce"
	kvtier "github.com/warmpath/warmpath/dataplane/kvtier/store"
	"github.com/warmpath/warmpath/dataplane/sidecar"
)

// newAnnouncer makes what tells the cluster's routers of a tier's contents, and adds its metrics to the node; nil without either. Its Run must follow.
func newAnnouncer(cfg *sidecar.Config, pages *kvtier.Store, shared *cluster.Cluster, log *slog.Logger) *announce.Announcer {
	if pages == nil || shared == nil {
		return nil
	}
	name := cfg.Name
	if name == "" {
		name, _ = os.Hostname() // where that fails node.New does, too
	}
	a := announce.New(announce.Config{Node: name, Bus: shared, Source: pages.Feed(), Log: log})
	cfg.Extra.Metrics = append(cfg.Extra.Metrics, a.Collector())
	return a
}
