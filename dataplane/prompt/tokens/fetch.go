package tokens

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/warmpath/warmpath/dataplane/upstream"
)

// WorkerFetcher is a Fetcher that asks workers over the connections of the request path.
type WorkerFetcher struct {
	// Authorization, which may be nil, returns the value of that field for a worker, nil for none.
	Authorization func(url string) []byte

	transport *upstream.Transport
	lookup    func(url string) (upstream.Target, error)
	idle      sync.Pool // *fetch
}

var _ Fetcher = (*WorkerFetcher)(nil)

// NewWorkerFetcher returns a fetcher over transport; lookup returns the address of a worker by its
// URL.
func NewWorkerFetcher(transport *upstream.Transport, lookup func(url string) (upstream.Target, error)) *WorkerFetcher {
	return &WorkerFetcher{transport: transport, lookup: lookup}
}

// fetch is the memory of one request, with its timer: contexts would cost 19 allocations and
// 1.3 µs more.
type fetch struct {
	canceler upstream.Canceler
	timer    *time.Timer // cancels; stopped while the fetch is idle
	request  upstream.Request
	path     []byte
	extra    [2]upstream.Field
}

// maxTokens bounds the answer to a /v1/tokenize: 4 million ids.
const maxTokens = 32 << 20

var (
	post     = []byte("POST")
	jsonType = upstream.Field{Key: "Content-Type", Value: []byte("application/json")}
)

// Fetch implements Fetcher; target is a worker's URL.
func (f *WorkerFetcher) Fetch(ctx context.Context, deadline time.Time, target, path string, body [][]byte, room func(n int) []byte) (int, []byte, error) {
	to, err := f.lookup(target)
	if err != nil {
		return 0, nil, err
	}
	timeout := time.Until(deadline)
	q := f.begin(timeout)
	detach := func() bool { return true }
	if ctx.Done() != nil {
		detach = context.AfterFunc(ctx, q.canceler.Cancel)
	}
	// A fetch with a fired timer is dropped: its cancel may still be on its way.
	defer func() {
		if stopped := q.timer.Stop(); detach() && stopped {
			q.request = upstream.Request{}
			f.idle.Put(q)
		}
	}()
	q.path = append(q.path[:0], path...)
	extra := append(q.extra[:0], jsonType)
	if f.Authorization != nil {
		// Without a key the value is nil, and no field is sent.
		extra = append(extra, upstream.Field{Key: "Authorization", Value: f.Authorization(target)})
	}
	q.request = upstream.Request{
		Target: to, Method: post, Path: q.path,
		Extra: extra, Body: body, HeaderTimeout: timeout, ReadTimeout: timeout,
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

// begin returns a fetch that is canceled after a time.
func (f *WorkerFetcher) begin(timeout time.Duration) *fetch {
	if q, ok := f.idle.Get().(*fetch); ok {
		q.canceler.Reset()
		q.timer.Reset(timeout)
		return q
	}
	q := new(fetch)
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
