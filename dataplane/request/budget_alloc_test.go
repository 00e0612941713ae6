//go:build !race && linux

package request_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestBudgetOfAllocations: a prompt that nobody knows costs the trees a node or two, and nothing else
// allocates.
func TestBudgetOfAllocations(t *testing.T) {
	for _, k := range kinds() {
		t.Run(k.name, func(t *testing.T) {
			once := budgeted(t, &k)
			for range 100 { // pools fill, maps grow
				once()
			}
			allocs := math.Inf(1)
			for range 5 { // probes allocate too, more of them the longer a busy machine takes
				allocs = min(allocs, testing.AllocsPerRun(100, once))
			}
			t.Logf("%v allocations", allocs)
			assert.LessOrEqual(t, allocs, k.allocs)
		})
	}
}
