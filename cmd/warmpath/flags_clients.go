package main

import (
	"github.com/spf13/pflag"

	"github.com/warmpath/warmpath/dataplane/router"
)

// clientFlags bound what clients may take.
func clientFlags(f *pflag.FlagSet, cfg *router.Config) {
	c := &cfg.Requests.Clients
	f.StringVar(&c.Keys, "client-keys", "",
		"`FILE` with the API keys that clients need, one a line as printed by warmpath key new (its --help lists the limits); read again when it changes")
	f.StringVar(&c.JWKS, "client-jwks", "",
		"`FILE` or https:// URL with the keys (JWKS) of an issuer whose JSON Web Tokens clients may show, with or in place of --client-keys; "+
			"sub is the client's name, and the claim warmpath has its limits: an object with those of warmpath key new --help; followed as it changes")
	f.StringVar(&c.Issuer, "client-jwt-issuer", "", "issuer (iss) that these tokens must name")
	f.StringVar(&c.TokenAudience, "client-jwt-audience", "", "audience (aud) that these tokens must be for")
	f.BoolVar(&c.CacheSalt, "client-cache-salt", false,
		"give each key in --client-keys a prefix cache of its own, so that no client learns the prompts of others: the cache_salt of a body is replaced "+
			"by one made of it and of the key's name; /v1/messages, where SGLang reads no salt, is refused except to keys with cache-salt=own")
	f.BoolVar(&cfg.Requests.TrustPriority, "trust-priority", false,
		"use the priority in the bodies of all clients, and pass it to workers (default: only of clients whose key has priority=N)")
	f.StringSliceVar(&cfg.Requests.Proxies, "trusted-proxy", nil,
		"`NETWORK` or address of proxies whose X-Forwarded-For names the client, for its turn in the queue; may be repeated (default: none)")
	f.StringSliceVar(&cfg.Requests.Origins, "cors-allowed-origins", nil,
		"`ORIGIN` of web pages that may call the clients' API from a browser, such as https://app.example, or * for any; may be repeated; "+
			"never for the operator API (default: none, and answers of workers pass with what they allow)")
	f.IntVar(&c.Max, "max-clients", 0,
		"most connections of clients; beyond it idle connections are closed, longest idle first, then requests get 503 "+
			"except for health and the operator API (default: a third of the open files that ulimit -n leaves, which is also the most)")
	f.IntVar(&c.PerAddress, "max-clients-per-address", 0,
		"most connections of one address, or IPv6 network /64; further ones are closed (default: no bound, since clients behind a load balancer share its address)")
	f.DurationVar(&c.Idle, "client-idle-timeout", 0,
		"longest wait for the next request on a connection; keep it above the load balancer's (default 15m)")
	f.DurationVar(&c.Request, "client-request-timeout", 0, "longest time for a request to arrive; beyond it the answer is 408 (default 30s)")
	f.IntVar(&c.MinRate, "client-min-rate", 0, "bytes that extend this time by a second each, so that long requests arrive over slow lines (default 16384)")
	f.DurationVar(&c.Stall, "client-stall-timeout", 0,
		"cut a client that reads nothing of its answer for this long, and abort its request; slow readers are not cut (default 1m)")
	f.IntVar(&c.MaxHead, "max-head-bytes", 0, "longest head of a request; each busy connection has a buffer of this size (default 16384)")
}
