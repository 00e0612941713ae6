package main

import (
	"github.com/spf13/pflag"

	"github.com/warmpath/warmpath/dataplane/router"
	"github.com/warmpath/warmpath/dataplane/router/config"
)

// replicaFlags are the flags of several routers for the same workers.
func replicaFlags(f *pflag.FlagSet, cfg *router.Config) {
	f.StringVar(&cfg.Cluster.Peers, "replicas", config.PeersAuto,
		"what the routers of a --cluster tell each other: auto (what each has in flight, and one chooses for all, so that they choose as one would) or off")
	f.DurationVar(&cfg.Cluster.Wait, "cluster-wait", 0,
		"how long a router that starts lets clients wait until it knows the workers of its --cluster; after that they are told that there is none (default 3s)")
}
