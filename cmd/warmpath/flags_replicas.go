package main

import (
	"github.com/spf13/pflag"

	"github.com/warmpath/warmpath/dataplane/router"
	"github.com/warmpath/warmpath/dataplane/router/config"
)

// replicaFlags are the flags of several routers for the same workers.
func replicaFlags(f *pflag.FlagSet, cfg *router.Config) {
	f.StringVar(&cfg.Cluster.Replicas, "replicas", config.ReplicasAuto,
		"sharing between the routers of a --cluster: auto (each shares its requests in flight, and one router chooses for all) or off")
	f.DurationVar(&cfg.Cluster.Wait, "cluster-wait", 0,
		"how long a router that starts lets clients wait until it knows the workers of its --cluster; after that they are told that there is none (default 3s)")
}
