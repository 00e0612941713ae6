package main

import (
	"github.com/spf13/pflag"

	"github.com/warmpath/warmpath/dataplane/router"
	"github.com/warmpath/warmpath/dataplane/routing"
)

// workerFlags name the workers of a router.
func workerFlags(f *pflag.FlagSet, cfg *router.Config) {
	f.StringArrayVar(&cfg.Sources.Workers, "worker", nil, "`URL` of a worker: http://host:port, https://host:port or host:port; may be repeated")
	f.StringArrayVar(&cfg.Sources.Prefill, "prefill", nil,
		"`URL[,BOOTSTRAP_PORT]` of a prefill worker, or URL,HOST:PORT where decode workers reach its bootstrap server by another name; may be repeated "+
			"(default: the URL's host, and the port that the worker reports)")
	f.StringArrayVar(&cfg.Sources.Decode, "decode", nil, "`URL` of a decode worker; may be repeated")
	f.StringArrayVar(&cfg.Sources.Discover, "discover", nil,
		"`SOURCE` whose workers come and go: file:PATH (lines of URL [ROLE [BOOTSTRAP]], or YAML), dns-srv:[ROLE:]NAME, "+
			"etcd:HOST:PORT/PREFIX or kubernetes:[NAMESPACE/]SERVICE, with options as ?name=value; may be repeated")
}

// pairFlags set the least prompt for a pair, and how long its halves wait for each other.
func pairFlags(f *pflag.FlagSet, cfg *router.Config) {
	f.IntVar(&cfg.Pairs.MinUncached, "disagg-min-uncached", routing.DefaultMinUncached,
		"where a model has workers without --disaggregation-mode beside pairs: send a prompt with fewer uncached tokens to such a worker alone; "+
			"longer ones go where the first token comes first; -1: length never decides")
	f.DurationVar(&cfg.Pairs.Timeout, "pair-timeout", 0,
		"longest time from the end of prefill to the decode worker's first event, not counting its queue while it makes progress; "+
			"then another pair is tried (default 30s)")
	f.DurationVar(&cfg.Pairs.PrefillTimeout, "prefill-timeout", 0, "longest wait for a prefill worker's answer (default --first-byte-timeout)")
	f.BoolVar(&cfg.Pairs.Headers, "pair-headers", false,
		"chats: tell the workers of a pair about each other in X-Override-* headers and leave the body unchanged; workers need SGLANG_ENABLE_REQUEST_HEADER_OVERRIDES=1")
}
