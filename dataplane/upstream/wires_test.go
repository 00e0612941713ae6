package upstream_test

import (
	"crypto/tls"
	"sync"

	"github.com/warmpath/warmpath/dataplane/upstream"
)

// targets are the settings for workers with TLS, by address.
var targets sync.Map

func target(addr string) upstream.Target {
	cfg, _ := targets.Load(addr)
	settings, _ := cfg.(*tls.Config)
	return upstream.Target{Addr: addr, TLS: settings}
}
