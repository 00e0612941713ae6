package tlsconfig_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/warmpath/warmpath/dataplane/tlsconfig"
)

func TestLoopback(t *testing.T) {
	for _, host := range []string{"localhost", "127.0.0.1", "127.8.9.10", "::1", "[::1]", "::ffff:127.0.0.1"} {
		assert.True(t, tlsconfig.Loopback(host), host)
	}
	for _, host := range []string{"", "0.0.0.0", "::", "[::]", "10.0.0.1", "fe80::1", "localhost.example.com", "127.0.0.1.nip.io", "127.0.0.1:80", "node-1"} {
		assert.False(t, tlsconfig.Loopback(host), host)
	}
}
