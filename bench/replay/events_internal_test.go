package replay

import (
	"strings"
	"testing"
	"time"
)

// However the bytes are cut into reads, the events must be the same.
func TestEventsInAnyPieces(t *testing.T) {
	const answer = "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n: comment\n" +
		"data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\r\n\r\ndata:{\"usage\":{\"prompt_tokens\":7}}\n\ndata: [DONE]\n\n"
	content := strings.Index(answer, `"x"`)
	for size := 1; size <= len(answer); size++ {
		e := events{api: APIChat}
		base := time.Unix(0, 0)
		for at := 0; at < len(answer); at += size {
			e.write([]byte(answer[at:min(at+size, len(answer))]), base.Add(time.Duration(at)))
		}
		if e.count != 3 || !e.done || string(e.last) != `{"usage":{"prompt_tokens":7}}` {
			t.Fatalf("pieces of %d: %d events, done %v, last %q", size, e.count, e.done, e.last)
		}
		if at := int(e.first.Sub(base)); at+size <= content {
			t.Fatalf("pieces of %d: content at byte %d, before it came", size, at)
		}
	}
}

func TestEventsDoNotAllocate(t *testing.T) {
	event := []byte("data: {\"choices\":[{\"text\":\"abc\"}]}\n\n")
	e := events{api: APICompletions}
	now := time.Unix(0, 0)
	e.write(event, now)
	if n := testing.AllocsPerRun(100, func() { e.write(event, now) }); n != 0 {
		t.Errorf("write allocates %v times, want 0", n)
	}
}
