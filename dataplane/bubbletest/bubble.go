package bubbletest

import (
	"testing"
	"testing/synctest"
)

// Test is [synctest.Test], but for a test that fails and leaves goroutines behind: synctest ends
// the process then, with all other tests of the package. Here the test fails, and nothing more. It
// must not be called in a bubble.
func Test(t *testing.T, f func(*testing.T)) {
	t.Helper()
	defer alone()()
	defer func() {
		if t.Failed() {
			if left := recover(); left != nil {
				t.Fatalf("after the failure: %v", left)
			}
		}
	}()
	synctest.Test(t, f)
}
