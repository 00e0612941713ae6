package tokens_test

import (
	"context"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/prompt/tokens"
)

func TestHitDoesNotAllocate(t *testing.T) {
	s := newSource(t, tokens.Config{Fetch: &worker{}})
	req := parse(t, openai.APIChat, `{"model":"m","messages":[{}],"tools":[],"chat_template_kwargs":{}}`)
	if _, err := s.Prompt(nil, "http://a", req); err != nil {
		t.Fatal(err)
	}
	n := testing.AllocsPerRun(100, func() {
		if _, err := s.Prompt(nil, "http://a", req); err != nil {
			t.Error(err)
		}
	})
	if n != 0 {
		t.Errorf("a hit allocates %v times, want 0", n)
	}
}

// onePool makes a sync.Pool return what was put into it: it has a part for each processor, and a
// collection empties it.
func onePool(t *testing.T) {
	t.Helper()
	processors, percent := runtime.GOMAXPROCS(1), debug.SetGCPercent(-1)
	t.Cleanup(func() {
		runtime.GOMAXPROCS(processors)
		debug.SetGCPercent(percent)
	})
}

// TestReleaseIsUsedAgain: of a prompt that its caller and the cache have given up the memory is the
// next one's.
func TestReleaseIsUsedAgain(t *testing.T) {
	onePool(t)
	s := newSource(t, tokens.Config{Fetch: &worker{}, MaxBytes: -1}) // no cache
	ask := func(text string) tokens.Prompt {
		p, err := s.Prompt(nil, "http://a", prompt(t, strings.Repeat(text, 5000)))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	again := 0
	for range 20 { // with the race detector a pool forgets one in four
		first, other := ask("a"), ask("b")
		if &other.IDs[0] == &first.IDs[0] {
			t.Error("two callers have the same memory")
		}
		at := &first.IDs[0]
		if first.Release(); &ask("c").IDs[0] == at {
			again++
		}
	}
	if again == 0 {
		t.Error("the memory is never used again")
	}
}

// lender notes the addresses of its answers.
type lender struct {
	prompt, answer *byte
}

func (l *lender) Fetch(_ context.Context, _ time.Time, _, _ string, body [][]byte, room func(int) []byte) (int, []byte, error) {
	answer := room(64 << 10)[:0]
	answer = append(answer, `{"tokens":[1,2,3]}`...)
	l.prompt, l.answer = &body[1][0], &answer[0]
	return 200, answer, nil
}

// TestQuestionsTakeNoMemory: a prompt is sent from where it came, and answers lie in the memory of
// those before.
func TestQuestionsTakeNoMemory(t *testing.T) {
	l := &lender{}
	s := newSource(t, tokens.Config{Fetch: l, MaxBytes: -1}) // no cache
	ask := func(text string) {
		req := prompt(t, text)
		p, err := s.Prompt(nil, "http://a", req)
		if err != nil || len(p.IDs) != 3 {
			t.Fatalf("Prompt = %v, %v", p.IDs, err)
		}
		if l.prompt != &req.Prompt[0] {
			t.Error("the prompt was copied")
		}
		p.Release()
	}
	again := 0
	for range 100 { // a goroutine may move to another processor, and the collector may run
		ask(strings.Repeat("a", 5000))
		before := l.answer
		if ask(strings.Repeat("b", 5000)); l.answer == before {
			again++
		}
	}
	if again == 0 {
		t.Error("the answer's memory is never used again")
	}
}
