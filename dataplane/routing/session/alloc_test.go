//go:build !race

package session_test

import (
	"testing"

	"github.com/warmpath/warmpath/dataplane/routing/session"
)

func TestRequestDoesNotAllocate(t *testing.T) {
	x := session.New()
	const a = 0
	for key := range uint64(1000) {
		x.Sent(float64(key), key+1, a, 100, 0)
	}
	now := 1000.0
	if n := testing.AllocsPerRun(1000, func() {
		now++
		key := uint64(now)%1000 + 1
		x.Home(key)
		x.Sent(now, key, a, 100, 0)
		x.Live(a)
		x.Ended(now+0.5, key, 1)
	}); n != 0 {
		t.Errorf("a request allocates %v times, want 0", n)
	}
}
