package bubbletest_test

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/warmpath/warmpath/dataplane/bubbletest"
)

// TestManyTimers ends in a crash of the race detector in most runs on two cores where it uses synctest.Test.
func TestManyTimers(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	for range 5 {
		bubbletest.Test(t, func(*testing.T) {
			var wg sync.WaitGroup
			never := make(chan int)
			for range 600 {
				wg.Go(func() {
					tick := time.NewTicker(time.Second)
					defer tick.Stop()
					for range 60 {
						time.Sleep(time.Second)
						select {
						case <-never:
						case <-tick.C:
						}
					}
				})
			}
			wg.Wait()
		})
	}
	if after := runtime.GOMAXPROCS(0); after != before {
		t.Errorf("GOMAXPROCS is %d after bubbles, want %d", after, before)
	}
}
