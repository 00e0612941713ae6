package upstream_test

import (
	"crypto/tls"
	"crypto/x509"
	"strings"
	"sync"
	"testing"

	"github.com/warmpath/warmpath/dataplane/tlsconfig/tlstest"
	"github.com/warmpath/warmpath/dataplane/upstream"
)

// encrypted tells which of a test's two runs this is, "plain" with plain connections or "tls"
// with TLS on both sides of the router; workers, requests, routers and clients of the test
// follow it.
func encrypted(t testing.TB) bool {
	t.Helper()
	return strings.Contains(t.Name()+"/", "/tls/")
}

// targets are the settings for workers with TLS, by address.
var targets sync.Map

func target(addr string) upstream.Target {
	cfg, _ := targets.Load(addr)
	settings, _ := cfg.(*tls.Config)
	return upstream.Target{Addr: addr, TLS: settings}
}

// identity is the certificate of all servers, and the authority that clients trust.
var identity struct {
	once sync.Once
	pair tls.Certificate
	pool *x509.CertPool
}

func identify(t testing.TB) {
	t.Helper()
	identity.once.Do(func() {
		ca := tlstest.NewAuthority(t)
		identity.pair, identity.pool = ca.Issue("127.0.0.1").TLS, ca.Pool()
	})
}

func serverTLS(t testing.TB) *tls.Config {
	t.Helper()
	identify(t)
	return &tls.Config{Certificates: []tls.Certificate{identity.pair}}
}

func clientTLS(t testing.TB) *tls.Config {
	t.Helper()
	identify(t)
	return &tls.Config{RootCAs: identity.pool, ServerName: "127.0.0.1"}
}
