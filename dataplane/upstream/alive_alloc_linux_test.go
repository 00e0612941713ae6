//go:build !race

package upstream

import "testing"

// TestAliveDoesNotAllocate: a look at an idle connection is one system call, without an address
// that nobody wants.
func TestAliveDoesNotAllocate(t *testing.T) {
	cn, _ := idleConn(t)
	if n := testing.AllocsPerRun(200, func() {
		if !cn.alive() {
			t.Fatal("an idle connection is not alive")
		}
	}); n != 0 {
		t.Errorf("a look allocates %v times, want 0", n)
	}
}
