package main

import (
	"github.com/spf13/pflag"

	"github.com/warmpath/warmpath/dataplane/router"
)

// clientFlags bound what clients may take.
func clientFlags(f *pflag.FlagSet, cfg *router.Config) {
	c := &cfg.Requests.Clients
	f.StringVar(&c.Keys, "client-keys", "",
		"`FILE` with the API keys that clients must show, a line for each as warmpath key new NAME prints it (warmpath key new --help: limits); read again when it changes")
	f.StringVar(&c.JWKS, "client-jwks", "",
		"`FILE` or https:// URL with the keys (JWKS) of an issuer whose JSON Web Tokens clients may show, with or in place of --client-keys; "+
			"sub is the client's name, and the claim warmpath has its limits: an object with those of warmpath key new --help; followed as it changes")
	f.StringVar(&c.Issuer, "client-jwt-issuer", "", "iss that these tokens must have")
	f.StringVar(&c.TokenAudience, "client-jwt-audience", "", "aud that these tokens must have or contain")
	f.BoolVar(&c.CacheSalt, "client-cache-salt", false,
		"give the prompts of each key in --client-keys a cache of their own, by a cache_salt that is made of the key's name and of the body's own, "+
			"so that no client finds out the prompts of others; /v1/messages, where SGLang reads none, is refused but to keys with cache-salt=own")
	f.BoolVar(&cfg.Requests.TrustPriority, "trust-priority", false,
		"believe the priority in the bodies of clients (default: none, as with --client-keys of a client whose key has no priority=N; workers get none, either)")
	f.StringSliceVar(&cfg.Requests.Proxies, "trusted-proxy", nil,
		"`NETWORK` or address of proxies that name their client in X-Forwarded-For, by which it has its turn in the queue; may be repeated (default: none)")
	f.IntVar(&c.Max, "max-clients", 0,
		"connections of clients; beyond it those that wait longest for a request are closed, then requests get 503 "+
			"but for health and the operator's API (default and most: a third of the open files that ulimit -n leaves)")
	f.IntVar(&c.PerAddress, "max-clients-per-address", 0,
		"connections of one address, or IPv6 network /64; further ones are closed (default any number: behind a load balancer all clients have its address)")
	f.DurationVar(&c.Idle, "client-idle-timeout", 0,
		"longest wait for the next request on a connection; keep it above the load balancer's (default 15m)")
	f.DurationVar(&c.Request, "client-request-timeout", 0, "for a request to arrive; beyond it the answer is 408 (default 30s)")
	f.IntVar(&c.MinRate, "client-min-rate", 0, "bytes of a request that give it a second more, so that long ones arrive over slow lines (default 16384)")
	f.DurationVar(&c.Stall, "client-stall-timeout", 0,
		"a client that takes nothing of its answer for so long is cut and its request aborted; a slow one is not (default 1m)")
	f.IntVar(&c.MaxHead, "max-head-bytes", 0, "longest head of a request; each busy connection has a buffer of that size (default 16384)")
}
