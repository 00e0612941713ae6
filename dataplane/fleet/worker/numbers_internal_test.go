package worker

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestNumbers: a number is given again when its rank is gone, and not while any part of the rank is
// still in use.
func TestNumbers(t *testing.T) {
	var n numbers
	issue := func() *Rank {
		rank := &Rank{}
		n.issue(rank)
		return rank
	}
	first := issue()
	assert.Equal(t, [...]uint32{1, 2}, [...]uint32{first.Number(), issue().Number()})
	load := &first.Load
	runtime.GC() // nothing refers to the second
	third, fourth := issue(), issue()
	assert.Equal(t, [...]uint32{2, 3}, [...]uint32{third.Number(), fourth.Number()})
	runtime.KeepAlive(load)
}
