package natstest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// Ports that a test may name lie below those that Linux gives to connections and to listeners that name none, 32768 and up.
const (
	firstPort = 12_000
	lastPort  = 31_999
)

// Address returns an address on loopback whose port is the test's own until its end, for a process that is to listen there, or to do
// so again. No connection is given the port by chance, and nobody else who asks here, in whatever process.
func Address(t testing.TB) string {
	t.Helper()
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		claim, err := net.Listen("unix", fmt.Sprintf("@warmpath-test-port-%d", port)) // abstract: it goes with the process
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
