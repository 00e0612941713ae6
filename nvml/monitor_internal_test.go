package nvml

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// A process that stood still for longer than grace blames nobody: it has seen one tick of the clock, and the owner ends at the next moment.
func TestAStandstillIsNoHang(t *testing.T) {
	ended, tick := make(chan struct{}), make(chan time.Time)
	go func() {
		tick <- time.Now().Add(time.Hour)
		close(ended)
	}()
	assert.True(t, comesBack(ended, tick))

	told := make(chan int)
	go func() {
		n := 0
		for ; n < graceTicks; n++ {
			tick <- time.Now()
		}
		told <- n
	}()
	assert.False(t, comesBack(make(chan struct{}), tick), "no tick is left")
	assert.Equal(t, graceTicks, <-told)
}
