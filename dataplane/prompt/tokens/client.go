package tokens

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/prompt/openai"
)

// client asks workers for token ids.
type client struct {
	fetch    Fetcher
	deadline time.Duration
	targets  targets

	questions sync.Pool // *question
	answers   sync.Pool // *answer
	memories  memoryPools

	failures atomic.Uint64
}

func (c *client) load(target string, req *openai.Request) (*promptMemory, error) {
	if err := c.targets.check(target); err != nil {
		return nil, err
	}
	q := c.question()
	var at int
	var prompt []byte
	q.text, at, prompt = appendAround(q.text[:0], req)
	q.parts = [3][]byte{q.text[:at], prompt, q.text[at:]}
	m, err := c.fetchIDs(context.Background(), target, q)
	c.release(q)
	c.targets.noteResult(target, err)
	if err != nil {
		c.failures.Add(1)
		return nil, fmt.Errorf("cannot tokenize on %s: %w", target, err)
	}
	return m, nil
}

// question is the buffers of one request to a worker. Of a prompt of 64 KB, question and answer are
// 150 KB, most of the memory that a request would allocate. So the prompt is not copied, and
// answers borrow pooled memory when they begin, since few of them are read at a time.
type question struct {
	parts  [3][]byte
	text   []byte // the first and the last part
	room   func(n int) []byte
	answer *answer // nil: room was not called
}

type answer struct{ b []byte }

// maxPooledQuestion and maxPooledAnswer bound the memory that is kept.
const (
	maxPooledQuestion = 64 << 10
	maxPooledAnswer   = 4 << 20
)

func (c *client) question() *question {
	if q, ok := c.questions.Get().(*question); ok {
		return q
	}
	q := new(question)
	q.room = func(n int) []byte {
		var ok bool
		if q.answer, ok = c.answers.Get().(*answer); !ok {
			q.answer = new(answer)
		}
		q.answer.b = slices.Grow(q.answer.b[:0], n)
		return q.answer.b
	}
	return q
}

// release takes back a question after the last use of its answer.
func (c *client) release(q *question) {
	if a := q.answer; a != nil && cap(a.b) <= maxPooledAnswer {
		c.answers.Put(a)
	}
	if q.answer, q.parts = nil, [3][]byte{}; cap(q.text) <= maxPooledQuestion {
		c.questions.Put(q)
	}
}

// fetchIDs asks the worker once. The ids have memory of their own.
func (c *client) fetchIDs(ctx context.Context, target string, q *question) (*promptMemory, error) {
	status, answer, err := c.fetch.Fetch(ctx, time.Now().Add(c.deadline), target, "/v1/tokenize", q.parts[:], q.room)
	return c.readAnswer(status, answer, err)
}

// errRefused means that the worker refused this prompt: the worker itself is healthy.
var errRefused = fmt.Errorf("%w: refused", ErrUnavailable)

var comma = []byte{','}

// idsRoom is the room that AppendTokens needs at the end of a list, and one id for the last, which
// has no comma.
const idsRoom = 33

func (c *client) readAnswer(status int, answer []byte, err error) (*promptMemory, error) {
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	case status == fasthttp.StatusNotFound, status == fasthttp.StatusMethodNotAllowed, status == fasthttp.StatusNotImplemented:
		return nil, ErrUnsupported
	case status >= 500:
		return nil, fmt.Errorf("%w: status %d", ErrUnavailable, status)
	case status != fasthttp.StatusOK:
		return nil, fmt.Errorf("%w: status %d", errRefused, status)
	}
	// A comma follows nearly each id, so this never grows and is kept as it is.
	m := c.memories.get(bytes.Count(answer, comma) + idsRoom)
	ids, err := openai.AppendTokens(m.ids, answer)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	m.ids = ids
	return m, nil
}

// appendAround appends the JSON around the prompt in the body for /v1/tokenize, and returns it with
// the prompt and its offset. Raw JSON is copied unchanged, so the worker's template sees the
// client's fields in both places.
func appendAround(dst []byte, req *openai.Request) (around []byte, at int, prompt []byte) {
	dst = append(dst, '{')
	dst = openai.AppendMember(dst, "model", req.RawModel)
	if req.Messages == nil {
		dst = openai.AppendName(dst, "prompt")
		return append(dst, '}'), len(dst), req.Prompt
	}
	dst = openai.AppendName(dst, "messages")
	at = len(dst)
	for _, f := range req.PromptFields() {
		dst = openai.AppendMember(append(dst, ','), f.Name, f.Raw)
	}
	return append(dst, '}'), at, req.Messages
}
