package nvml

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// A process that was stopped for longer than grace reports no hang: it has seen one tick, and
// the reader ends right after.
func TestAStandstillIsNoHang(t *testing.T) {
	ended, tick := make(chan struct{}), make(chan time.Time)
	go func() {
		tick <- time.Now().Add(time.Hour)
		close(ended)
	}()
	assert.True(t, endsInTime(ended, tick))

	told := make(chan int)
	go func() {
		n := 0
		for ; n < graceTicks; n++ {
			tick <- time.Now()
		}
		told <- n
	}()
	assert.False(t, endsInTime(make(chan struct{}), tick), "no tick is left")
	assert.Equal(t, graceTicks, <-told)
}
