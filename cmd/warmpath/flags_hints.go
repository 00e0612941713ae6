package main

import (
	"github.com/spf13/pflag"

	"github.com/warmpath/warmpath/dataplane/router"
	"github.com/warmpath/warmpath/dataplane/router/config"
)

// hintFlags are the flags of pull hints.
func hintFlags(f *pflag.FlagSet, cfg *router.Config) {
	f.StringVar(&cfg.Cluster.Hints, "kv-hints", config.HintsAuto,
		"tell the sidecar of the chosen node which KV pages to pull from another node's tier before the engine asks: auto or off")
}
