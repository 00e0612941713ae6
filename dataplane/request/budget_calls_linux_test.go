//go:build invariants

package request_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/warmpath/warmpath/dataplane/socket"
)

// TestBudgetOfSystemCalls: a request makes the calls that its bytes need. Those that find nothing are
// one for each wait at most, and how many waits there are is the machine's affair.
func TestBudgetOfSystemCalls(t *testing.T) {
	for _, k := range kinds() {
		t.Run(k.name, func(t *testing.T) {
			once := budgeted(t, &k)
			for range 20 {
				once()
			}
			const requests = 100
			moved, empty := socket.Moved.Load(), socket.Empty.Load()
			for range requests {
				once()
			}
			moved, empty = socket.Moved.Load()-moved, socket.Empty.Load()-empty
			t.Logf("%v calls, %v found nothing", float64(moved)/requests, float64(empty)/requests)
			assert.InDelta(t, k.calls, float64(moved)/requests, 0.1) // a client has its answer before it is counted
		})
	}
}
