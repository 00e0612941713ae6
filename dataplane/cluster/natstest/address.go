package natstest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// Ports for tests lie below 32768, from which Linux picks ports for connections and for
// listeners without one.
const (
	firstPort = 12_000
	lastPort  = 31_999
)

// Address returns an address on loopback whose port belongs to the test until its end, for a
// process that listens there once or again. No connection gets the port by chance, and no other
// call of Address, in any process.
func Address(t testing.TB) string {
	t.Helper()
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		// Abstract: it ends with the process.
		claim, err := net.Listen("unix", fmt.Sprintf("@warmpath-test-port-%d", port))
		if err != nil {
			continue
		}
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			claim.Close()
			continue
		}
		l.Close()
		t.Cleanup(func() { claim.Close() })
		return l.Addr().String()
	}
	t.Fatal("no port is free")
	return ""
}
