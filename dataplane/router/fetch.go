package router

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/prompt/tokens"
	"github.com/warmpath/warmpath/dataplane/upstream"
)

// fetcher sends the tokenizer's questions over the request path's own
// connections.
type fetcher struct {
	transport *upstream.Transport
	registry  *worker.Registry
	idle      sync.Pool // *question
}

var _ tokens.Fetcher = (*fetcher)(nil)

// question is memory for one of them, and its timer: with contexts a question
// made 19 pieces of garbage, and took 1.3 µs longer.
type question struct {
	canceler upstream.Canceler
	timer    *time.Timer // cancels; stopped while the question is idle
	request  upstream.Request
	path     []byte
}

// maxTokens bounds the answer to a /v1/tokenize: 4 million ids.
const maxTokens = 32 << 20

var (
	post     = []byte("POST")
	jsonType = []upstream.Field{{Key: "Content-Type", Value: []byte("application/json")}}
)

// Fetch implements tokens.Fetcher; target is a worker's URL.
func (f *fetcher) Fetch(ctx context.Context, deadline time.Time, target, path string, body [][]byte, room func(n int) []byte) (int, []byte, error) {
	w, err := f.registry.Get(target)
	if err != nil {
		return 0, nil, err
	}
	timeout := time.Until(deadline)
	q := f.begin(timeout)
	detach := func() bool { return true }
	if ctx.Done() != nil {
		detach = context.AfterFunc(ctx, q.canceler.Cancel)
	}
	// One that is being canceled right now may be so later, too.
	defer func() {
		if stopped := q.timer.Stop(); detach() && stopped {
			q.request = upstream.Request{}
			f.idle.Put(q)
		}
	}()
	q.path = append(q.path[:0], path...)
	q.request = upstream.Request{
		Target: upstream.Target{Addr: w.Addr, TLS: w.TLS}, Method: post, Path: q.path,
		Extra: jsonType, Body: body, HeaderTimeout: timeout, ReadTimeout: timeout,
	}
	resp, err := f.transport.Do(&q.canceler, &q.request)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = resp.Close() }()
	answer, err := readAnswer(resp, room)
	if err != nil {
		return 0, nil, fmt.Errorf("cannot read answer of %s%s: %w", target, path, err)
	}
	return resp.Status, answer, nil
}

// begin returns a question that is canceled after a time.
func (f *fetcher) begin(timeout time.Duration) *question {
	if q, ok := f.idle.Get().(*question); ok {
		q.canceler.Reset()
		q.timer.Reset(timeout)
		return q
	}
	q := new(question)
	q.timer = time.AfterFunc(timeout, q.canceler.Cancel)
	return q
}

// readAnswer reads a body of at most maxTokens, into memory of room if its length is known.
func readAnswer(resp *upstream.Response, room func(n int) []byte) ([]byte, error) {
	n := resp.ContentLength()
	if n < 0 || n > maxTokens {
		return io.ReadAll(io.LimitReader(resp, maxTokens))
	}
	answer := room(int(n))[:n]
	_, err := io.ReadFull(resp, answer)
	return answer, err
}
