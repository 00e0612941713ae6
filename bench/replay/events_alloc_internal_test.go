package replay

import (
	"testing"
	"time"
)

func TestEventsDoNotAllocate(t *testing.T) {
	event := []byte("data: {\"choices\":[{\"text\":\"abc\"}]}\n\n")
	e := events{api: APICompletions}
	now := time.Unix(0, 0)
	e.write(event, now)
	if n := testing.AllocsPerRun(100, func() { e.write(event, now) }); n != 0 {
		t.Errorf("write allocates %v times, want 0", n)
	}
}
