package request_test

import (
	"testing"
)

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
