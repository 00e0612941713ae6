package tlstest

import (
	"crypto/tls"
	"crypto/x509"
	"strings"
	"sync"
	"testing"
)

// Encrypted tells which of a test's two runs this is, "plain" with plain connections or "tls".
func Encrypted(t testing.TB) bool {
	t.Helper()
	return strings.Contains(t.Name()+"/", "/tls/")
}

// OverBoth runs a test over plain connections and over TLS; Encrypted tells which of them it is.
func OverBoth(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	t.Run("plain", test)
	t.Run("tls", test)
}

// loopback is the certificate of a process's servers on 127.0.0.1, and the authority that its
// clients trust.
var loopback struct {
	once sync.Once
	pair tls.Certificate
	pool *x509.CertPool
}

func identify(t testing.TB) {
	t.Helper()
	loopback.once.Do(func() {
		ca := NewAuthority(t)
		loopback.pair, loopback.pool = ca.Issue("127.0.0.1").TLS, ca.Pool()
	})
}

// Server returns the settings of a server on 127.0.0.1.
func Server(t testing.TB) *tls.Config {
	t.Helper()
	identify(t)
	return &tls.Config{Certificates: []tls.Certificate{loopback.pair}, NextProtos: []string{"http/1.1"}, DynamicRecordSizingDisabled: true}
}

// Client returns the settings of a client of such servers, with sessions of its own.
func Client(t testing.TB) *tls.Config {
	t.Helper()
	identify(t)
	return &tls.Config{RootCAs: loopback.pool, ServerName: "127.0.0.1", ClientSessionCache: tls.NewLRUClientSessionCache(1)}
}
