package bubbletest_test

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/bubbletest"
	"github.com/warmpath/warmpath/dataplane/testkit"
)

// TestFailureEndsOnlyItsTest runs itself in a process of its own, where it fails while a goroutine sleeps.
func TestFailureEndsOnlyItsTest(t *testing.T) {
	isInner, said, err := testkit.Inner(t)
	if isInner {
		t.Run("fails", func(t *testing.T) {
			bubbletest.Test(t, func(t *testing.T) {
				go time.Sleep(time.Hour)
				t.Fatal("its own message")
			})
		})
		t.Run("goes on", func(*testing.T) {})
		return
	}
	require.Error(t, err, said)
	require.Contains(t, said, "its own message")
	require.Contains(t, said, "blocked goroutines remain")
	require.Contains(t, said, "--- PASS: TestFailureEndsOnlyItsTest/goes_on")
	require.NotContains(t, said, "panic:")
}

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
