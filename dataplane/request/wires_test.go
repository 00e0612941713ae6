package request_test

import (
	"crypto/tls"
	"crypto/x509"
	"strings"
	"sync"
	"testing"

	"github.com/warmpath/warmpath/dataplane/tlsconfig/tlstest"
)

// encrypted tells which of a test's two runs this is, "plain" with plain connections or "tls" with
// TLS on both sides of the router; workers, routers and clients of the test follow it.
func encrypted(t *testing.T) bool {
	t.Helper()
	return strings.Contains(t.Name()+"/", "/tls/")
}

// overBoth runs a test over plain connections and over TLS, at the same time.
func overBoth(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	for _, wire := range []string{"plain", "tls"} {
		t.Run(wire, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}

// identity is the certificate of both sides, which they trust.
var identity struct {
	once sync.Once
	pair tls.Certificate
	pool *x509.CertPool
}

func identify(t *testing.T) {
	t.Helper()
	identity.once.Do(func() {
		ca := tlstest.NewAuthority(t)
		identity.pair, identity.pool = ca.Issue("127.0.0.1").TLS, ca.Pool()
	})
}

func serverTLS(t *testing.T) *tls.Config {
	t.Helper()
	identify(t)
	return &tls.Config{Certificates: []tls.Certificate{identity.pair}, NextProtos: []string{"http/1.1"}, DynamicRecordSizingDisabled: true}
}

// clientTLS has its own sessions, as a worker of the registry has.
func clientTLS(t *testing.T) *tls.Config {
	t.Helper()
	identify(t)
	return &tls.Config{RootCAs: identity.pool, ServerName: "127.0.0.1", ClientSessionCache: tls.NewLRUClientSessionCache(1)}
}
