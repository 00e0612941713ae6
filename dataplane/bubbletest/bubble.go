package bubbletest

import (
	"testing"
	"testing/synctest"
)

// Test is [synctest.Test]. It must not be called in a bubble.
func Test(t *testing.T, f func(*testing.T)) {
	t.Helper()
	defer alone()()
	synctest.Test(t, f)
}
