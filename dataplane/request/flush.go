package request

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
	"github.com/warmpath/warmpath/dataplane/upstream"
)

const (
	// flushTimeout bounds one worker: its scheduler answers between two batches, and a long prefill is seconds.
	flushTimeout = 30 * time.Second
	// flushesAtOnce bounds the connections to workers that are opened for one request of an operator.
	flushesAtOnce = 64
	// maxFlushAnswer bounds what is told of a worker's refusal.
	maxFlushAnswer = 512
)

// Flushed is the answer to POST /flush_cache: what became of each worker's cache.
type Flushed struct {
	Flushed []string      `json:"flushed"` // URLs
	Failed  []FlushFailed `json:"failed,omitempty"`
}

// FlushFailed is a worker whose cache was not emptied.
type FlushFailed struct {
	URL   string `json:"url"`
	Error string `json:"error"` // as the worker says it: a busy SGLang refuses
}

// flushPath is SGLang's own, so that benchmarks empty the caches of a cluster as they do one worker's.
const flushPath = "/flush_cache"

// isFlush takes the path as it was written only: what merely resolves to it was meant to slip past somebody.
func isFlush(ctx *fasthttp.RequestCtx) bool {
	path, _, _ := bytes.Cut(ctx.RequestURI(), []byte("?"))
	return string(path) == flushPath
}

// serveFlush empties the caches of all workers that are not dead. 502 where one was not, with its reason; the others are all the same.
func (s *Server) serveFlush(ctx *fasthttp.RequestCtx) {
	switch {
	case !isFlush(ctx):
		s.fail(ctx, openai.NotFound(string(ctx.Path())))
		return
	case !ctx.IsPost():
		s.wrongMethod(ctx, fasthttp.MethodPost)
		return
	}
	answer := s.flush(bytes.Clone(ctx.RequestURI())) // with the query: SGLang's says how long to wait for running requests
	status := fasthttp.StatusOK
	if len(answer.Failed) > 0 {
		status = fasthttp.StatusBadGateway
	}
	s.serveJSON(ctx, status, answer)
}

func (s *Server) flush(path []byte) Flushed {
	answer := Flushed{Flushed: []string{}}
	var mu sync.Mutex // guards answer
	var wg sync.WaitGroup
	slots := make(chan struct{}, flushesAtOnce)
	for _, w := range s.Registry.Snapshot().Workers {
		if w.State() == worker.Dead {
			continue
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			err := s.flushOne(w, path)
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

// flushOne empties one worker's cache. Where it publishes events it also says so by one; what was learnt from its answers is forgotten here.
func (s *Server) flushOne(w *worker.Worker, path []byte) error {
	resp, err := s.Transport.Do(nil, &upstream.Request{
		Target: upstream.Target{Addr: w.Addr, TLS: w.TLS}, Method: methodPost, Path: path,
		HeaderTimeout: flushTimeout, ReadTimeout: flushTimeout,
	})
	if err != nil {
		return err
	}
	defer func() { _ = resp.Close() }()
	said, err := io.ReadAll(io.LimitReader(resp, maxFlushAnswer))
	switch {
	case err != nil:
		return err
	case resp.Status != fasthttp.StatusOK:
		return fmt.Errorf("status %d: %s", resp.Status, strings.TrimSpace(string(said)))
	}
	if s.Router.Approx != nil {
		s.Router.Approx.Clear(w)
	}
	return nil
}
