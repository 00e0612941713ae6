package testkit

import (
	"testing"
	"time"
)

const (
	// Patience is how long a test waits for an event on a slow machine. No test asserts it.
	Patience = 3 * time.Minute
	// maxPause is between two looks: many conditions ask a process, at a cost.
	maxPause = 30 * time.Millisecond
)

// Await waits until ok holds. After Patience the test fails with the text.
func Await(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	AwaitThat(tb, ok, func() string { return what })
}

// AwaitThat is Await with a text or a value that is taken at the end.
func AwaitThat[T any](tb testing.TB, ok func() bool, what func() T) {
	tb.Helper()
	pause := time.Millisecond
	for end := time.Now().Add(Patience); !ok(); time.Sleep(pause) {
		if time.Now().After(end) {
			tb.Fatalf("waited for too long: %+v", what())
		}
		pause = min(2*pause, maxPause)
	}
}
