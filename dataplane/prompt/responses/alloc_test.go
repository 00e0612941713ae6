//go:build !race

package responses_test

import (
	"testing"

	"github.com/warmpath/warmpath/dataplane/prompt/responses"
)

// TestAppendChatAlloc: the memory of a body is that of the body before.
func TestAppendChatAlloc(t *testing.T) {
	body := longBody()
	var c responses.Converter
	var chat []byte
	convert := func() {
		var err error
		if chat, err = c.AppendChat(chat[:0], body, nil, responses.Dialect{}); err != nil {
			t.Fatal(err)
		}
	}
	convert()
	if n := testing.AllocsPerRun(20, convert); n != 0 {
		t.Errorf("%.0f allocations", n)
	}
}
