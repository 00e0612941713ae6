package admin

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/routing"
	"github.com/warmpath/warmpath/dataplane/upstream"
)

const (
	// flushTimeout bounds one worker: its scheduler answers between two batches, and a long prefill
	// takes seconds.
	flushTimeout = 30 * time.Second
	// maxFlushes bounds the connections to workers that one request of an operator opens.
	maxFlushes = 64
	// maxFlushAnswer bounds the part of a worker's error message that the operator gets.
	maxFlushAnswer = 512
)

// Flushed is the answer to POST /flush_cache.
type Flushed struct {
	Flushed []string      `json:"flushed"` // URLs of workers with an empty cache now
	Failed  []FlushFailed `json:"failed,omitempty"`
}

// FlushFailed is a worker that was not flushed.
type FlushFailed struct {
	URL   string `json:"url"`
	Error string `json:"error"` // the worker's own words: a busy SGLang refuses
}

// flushPath is SGLang's own, so that benchmarks flush a cluster as they flush one worker.
const flushPath = "/flush_cache"

// isFlush compares the path as the client wrote it: one that only resolves to flushPath was written
// to pass a filter in front of the router.
func isFlush(ctx *fasthttp.RequestCtx) bool {
	path, _, _ := bytes.Cut(ctx.RequestURI(), []byte("?"))
	return string(path) == flushPath
}

// cacheFlusher answers POST /flush_cache.
type cacheFlusher struct {
	responder
	registry  *worker.Registry
	transport *upstream.Transport
	approx    *routing.ApproxIndex // nil: there is none
	known     *routing.KnownSessions
}

// serve flushes the prefix caches of all workers that are not dead. It answers 502 where one of
// them failed; the others are flushed all the same.
func (f *cacheFlusher) serve(ctx *fasthttp.RequestCtx) {
	switch {
	case !isFlush(ctx):
		f.fail(ctx, openai.NotFound(string(ctx.Path())))
		return
	case !ctx.IsPost():
		f.wrongMethod(ctx, fasthttp.MethodPost)
		return
	}
	// SGLang reads from the query how long to wait for running requests.
	answer := f.flush(bytes.Clone(ctx.RequestURI()))
	status := fasthttp.StatusOK
	if len(answer.Failed) > 0 {
		status = fasthttp.StatusBadGateway
	}
	f.json(ctx, status, answer)
}

// flush sends the request to all workers.
func (f *cacheFlusher) flush(target []byte) Flushed {
	answer := Flushed{Flushed: []string{}}
	var mu sync.Mutex // guards answer
	var wg sync.WaitGroup
	slots := make(chan struct{}, maxFlushes)
	for _, w := range f.registry.Snapshot().Workers {
		if w.State() == worker.Dead {
			continue
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			err := f.flushWorker(w, target)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				answer.Failed = append(answer.Failed, FlushFailed{w.URL, err.Error()})
				return
			}
			answer.Flushed = append(answer.Flushed, w.URL)
		})
	}
	wg.Wait()
	slices.Sort(answer.Flushed)
	slices.SortFunc(answer.Failed, func(a, b FlushFailed) int { return cmp.Compare(a.URL, b.URL) })
	return answer
}

// flushWorker flushes one worker. A worker with KV events publishes the flush; the approximate tree
// forgets the worker here.
func (f *cacheFlusher) flushWorker(w *worker.Worker, target []byte) error {
	resp, err := f.transport.Do(nil, &upstream.Request{
		Target: upstream.Target{Addr: w.Addr, TLS: w.TLS}, Method: []byte(fasthttp.MethodPost),
		Path:          target,
		Extra:         []upstream.Field{{Key: fasthttp.HeaderAuthorization, Value: w.Key().Admin()}},
		HeaderTimeout: flushTimeout, ReadTimeout: flushTimeout,
	})
	if err != nil {
		return err
	}
	defer func() { _ = resp.Close() }()
	message, err := io.ReadAll(io.LimitReader(resp, maxFlushAnswer))
	switch {
	case err != nil:
		return err
	case resp.Status == fasthttp.StatusUnauthorized, resp.Status == fasthttp.StatusForbidden:
		return fmt.Errorf("status %d: give the worker's key in --worker-api-key-file, its --admin-api-key where it has one", resp.Status)
	case resp.Status != fasthttp.StatusOK:
		return fmt.Errorf("status %d: %s", resp.Status, strings.TrimSpace(string(message)))
	}
	if f.approx != nil {
		f.approx.Clear(w)
	}
	f.known.Clear(w)
	return nil
}
