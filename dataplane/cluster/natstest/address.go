package natstest

import (
	"testing"

	"github.com/warmpath/warmpath/dataplane/freeport"
)

// Address returns an address on loopback whose port belongs to the test until its end, for a
// process that listens there once or again.
func Address(t testing.TB) string {
	t.Helper()
	addr, release, err := freeport.Hold()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	return addr
}
