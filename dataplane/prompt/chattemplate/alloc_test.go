//go:build !race

package chattemplate_test

import (
	"testing"

	"github.com/warmpath/warmpath/dataplane/prompt/chattemplate"
)

func TestRenderDoesNotAlloc(t *testing.T) {
	m := modelOf(t, "turns")
	req := chattemplate.Request{Messages: turns(10, 1000), Tools: shownTools(), Kwargs: []byte(`{"enable_thinking": false}`)}
	dst := make([]byte, 0, 1<<16)
	run := func() {
		if _, err := m.Render(dst, req); err != nil {
			t.Fatal(err)
		}
	}
	run()
	// The pool may lose its state to the garbage collector, so a run now and then allocates anew.
	// The average is rounded down.
	if n := testing.AllocsPerRun(200, run); n > 1 {
		t.Errorf("Render allocates %v times, want 0", n)
	}
}
