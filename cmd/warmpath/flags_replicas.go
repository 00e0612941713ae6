package main

import (
	"github.com/spf13/pflag"

	"github.com/warmpath/warmpath/dataplane/router"
	"github.com/warmpath/warmpath/dataplane/router/config"
)

// replicaFlags are the flags of several routers for the same workers.
func replicaFlags(f *pflag.FlagSet, cfg *router.Config) {
	f.StringVar(&cfg.Cluster.Peers, "replicas", config.PeersAuto,
		"share requests in flight with the other routers of a --cluster: auto or off")
	f.DurationVar(&cfg.Cluster.Wait, "cluster-wait", 0,
		"longest time that clients wait after the start until the router knows the workers of its --cluster; then they get 503 (default 3s)")
}
