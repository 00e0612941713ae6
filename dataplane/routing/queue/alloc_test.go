package queue_test

import (
	"testing"

	"github.com/warmpath/warmpath/dataplane/routing/queue"
)

func TestOpenGateDoesNotAllocate(t *testing.T) {
	g := queue.New(queue.Config{})
	if n := testing.AllocsPerRun(100, func() {
		var p queue.Permit
		_ = g.Engaged()
		p.Dispatched(nil)
		p.Release()
	}); n != 0 {
		t.Errorf("an open gate allocates %v times, want 0", n)
	}
}
