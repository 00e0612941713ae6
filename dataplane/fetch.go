package dataplane

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/warmpath/warmpath/dataplane/proxy"
	"github.com/warmpath/warmpath/dataplane/tokens"
	"github.com/warmpath/warmpath/dataplane/worker"
)

// fetcher sends the tokenizer's questions over the request path's own
// connections.
type fetcher struct {
	transport *proxy.Transport
	registry  *worker.Registry
}

var _ tokens.Fetcher = fetcher{}

// maxTokens bounds the answer to a /v1/tokenize: 4 million ids.
const maxTokens = 32 << 20

var jsonType = []proxy.Field{{Key: "Content-Type", Value: []byte("application/json")}}

// Fetch implements tokens.Fetcher; target is a worker's URL.
func (f fetcher) Fetch(ctx context.Context, target, path string, body, into []byte) (int, []byte, error) {
	w, err := f.registry.Get(target)
	if err != nil {
		return 0, nil, err
	}
	var c proxy.Canceler
	defer context.AfterFunc(ctx, c.Cancel)()
	timeout := time.Minute
	if deadline, ok := ctx.Deadline(); ok {
		timeout = time.Until(deadline)
	}
	resp, err := f.transport.Do(&c, &proxy.Request{
		Target: proxy.Target{Addr: w.Addr, TLS: w.TLS}, Method: []byte("POST"), Path: []byte(path),
		Extra: jsonType, Body: [][]byte{body}, HeaderTimeout: timeout, ReadTimeout: timeout,
	})
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = resp.Close() }()
	answer, err := readAnswer(resp, into)
	if err != nil {
		return 0, nil, fmt.Errorf("cannot read answer of %s%s: %w", target, path, err)
	}
	return resp.Status, answer, nil
}

// readAnswer appends a body of at most maxTokens to into.
func readAnswer(resp *proxy.Response, into []byte) ([]byte, error) {
	n := resp.ContentLength()
	if n < 0 || n > maxTokens {
		answer, err := io.ReadAll(io.LimitReader(resp, maxTokens))
		return append(into, answer...), err
	}
	have := len(into)
	into = slices.Grow(into, int(n))[:have+int(n)]
	_, err := io.ReadFull(resp, into[have:])
	return into, err
}
