//go:build !race

package request

import (
	"testing"

	"github.com/warmpath/warmpath/dataplane/routing"
)

// TestSessionNamesDoNotAllocate includes the search for headers.
func TestSessionNamesDoNotAllocate(t *testing.T) {
	call, req := sessionRequest(t, `{"metadata":{"user_id":"{\"session_id\":\"b\"}"}}`, "Accept", "a", "X-Claude-Code-Session-Id", "b")
	var p routing.Prompt
	if n := testing.AllocsPerRun(100, func() { nameSession(&p, call, req) }); n != 0 {
		t.Errorf("nameSession allocates %v times, want 0", n)
	}
}
