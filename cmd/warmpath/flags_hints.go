package main

import (
	"github.com/spf13/pflag"

	"github.com/warmpath/warmpath/dataplane/router"
	"github.com/warmpath/warmpath/dataplane/router/config"
)

// hintFlags are the flags of a router that tells nodes what comes to them.
func hintFlags(f *pflag.FlagSet, cfg *router.Config) {
	f.StringVar(&cfg.Cluster.Hints, "kv-hints", config.HintsAuto,
		"what is told to the sidecar of the node that is chosen: auto (which KV pages to pull from another node's tier, before the engine asks for them) or off")
}
