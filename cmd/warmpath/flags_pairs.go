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
			"(default: the URL's host, and the port that the worker tells)")
	f.StringArrayVar(&cfg.Sources.Decode, "decode", nil, "`URL` of a decode worker; may be repeated")
	f.StringArrayVar(&cfg.Sources.Discover, "discover", nil,
		"`source` of workers, which come and go as it says: file:PATH (lines of URL [ROLE [BOOTSTRAP]], or YAML), dns-srv:[ROLE:]NAME, "+
			"etcd:HOST:PORT/PREFIX or kubernetes:[NAMESPACE/]SERVICE, with options as ?name=value; may be repeated")
}

// pairFlags set the least prompt for a pair, and how long its halves wait for each other.
func pairFlags(f *pflag.FlagSet, cfg *router.Config) {
	f.IntVar(&cfg.Pairs.MinUncached, "disagg-min-uncached", routing.DefaultMinUncached,
		"prompts that lack fewer tokens in the cache of a worker without --disaggregation-mode go there alone, where a model has such workers "+
			"beside pairs; longer ones go where the first token comes first; -1: length never decides")
	f.DurationVar(&cfg.Pairs.Timeout, "pair-timeout", 0,
		"how long a decode worker may take to begin a stream once the prefill worker has sent the KV pages, without the time in its queue while it goes on; "+
			"then another pair is tried (default 30s)")
	f.DurationVar(&cfg.Pairs.PrefillTimeout, "prefill-timeout", 0, "longest wait for a prefill worker's answer (default --first-byte-timeout)")
	f.BoolVar(&cfg.Pairs.Headers, "pair-headers", false,
		"chats: tell the workers of each other in x-override-* headers and leave the body as it is; they need SGLANG_ENABLE_REQUEST_HEADER_OVERRIDES=1")
}
