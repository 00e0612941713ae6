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
	// slowTimeout is that of the other requests: a worker reads an adapter's weights, or writes a
	// profile.
	slowTimeout = 10 * time.Minute
	// maxAtOnce bounds the connections to workers that one request of an operator opens.
	maxAtOnce = 64
	// maxToldError bounds the part of a worker's error message that the operator gets.
	maxToldError = 512
)

// Flushed is the answer to /flush_cache.
type Flushed struct {
	Flushed []string       `json:"flushed"` // URLs of workers with an empty cache now
	Failed  []FailedWorker `json:"failed,omitempty"`
}

// Told is the answer to another request that all workers get.
type Told struct {
	Done   []string       `json:"done"` // URLs of workers that answered 200
	Failed []FailedWorker `json:"failed,omitempty"`
}

// FailedWorker is a worker that did not do as all were told.
type FailedWorker struct {
	URL   string `json:"url"`
	Error string `json:"error"` // the worker's own words: a busy SGLang refuses a flush
}

// flushPath is SGLang's own, so that benchmarks flush a cluster as they flush one worker.
const flushPath = "/flush_cache"

// toldAll are the paths of SGLang that all workers get a POST for: each has its own cache, adapters
// and profiler.
var toldAll = []string{flushPath, "/load_lora_adapter", "/unload_lora_adapter", "/start_profile", "/stop_profile"}

// toldByGet are those that SGLang takes as GET too. They have no body.
var toldByGet = []string{flushPath, "/start_profile", "/stop_profile"}

// isForAll compares the path as the client wrote it: one that only resolves to one of toldAll was
// written to pass a filter in front of the router.
func isForAll(ctx *fasthttp.RequestCtx) bool {
	path, _, _ := bytes.Cut(ctx.RequestURI(), []byte("?"))
	return slices.Contains(toldAll, string(path))
}

// allWorkers answers toldAll.
type allWorkers struct {
	responder
	registry  *worker.Registry
	transport *upstream.Transport
	approx    *routing.ApproxIndex // nil: there is none
	known     *routing.KnownSessions
}

// serve has all workers that are not dead do the same. It answers 502 where one of them failed; the
// others have done it all the same. keyless says that the operator API asks for no key.
func (f *allWorkers) serve(ctx *fasthttp.RequestCtx, keyless bool) {
	byGet := slices.Contains(toldByGet, string(ctx.Path()))
	switch {
	case ctx.IsPost():
	case !byGet:
		f.wrongMethod(ctx, fasthttp.MethodPost)
		return
	case !ctx.IsGet():
		f.wrongMethod(ctx, "GET, POST")
		return
	case keyless && isBrowser(ctx):
		f.fail(ctx, openai.Forbidden("", "Without an operator key a browser's GET changes nothing, since any page can make it: use POST."))
		return
	}
	flush := string(ctx.Path()) == flushPath
	// SGLang reads from the query how long to wait for running requests.
	r := upstream.Request{Method: []byte(fasthttp.MethodPost), Path: bytes.Clone(ctx.RequestURI()), HeaderTimeout: slowTimeout, ReadTimeout: slowTimeout}
	if flush {
		r.HeaderTimeout, r.ReadTimeout = flushTimeout, flushTimeout
	} else if body := ctx.PostBody(); len(body) > 0 {
		r.Body, r.Extra = [][]byte{bytes.Clone(body)}, []upstream.Field{{Key: fasthttp.HeaderContentType, Value: []byte("application/json")}}
	}
	done, failed := f.tell(&r, func(w *worker.Worker) {
		if !flush {
			return
		}
		// A worker with KV events publishes the flush; the approximate tree forgets it here.
		if f.approx != nil {
			f.approx.Clear(w)
		}
		f.known.Clear(w)
	})
	status := fasthttp.StatusOK
	if len(failed) > 0 {
		status = fasthttp.StatusBadGateway
	}
	if flush {
		f.json(ctx, status, Flushed{done, failed})
		return
	}
	f.json(ctx, status, Told{done, failed})
}

// isBrowser reports whether a request is a browser's. An image or a link of any page sends a GET
// without an Origin, and browsers before 2023 without Sec-Fetch-Site; all call themselves Mozilla.
func isBrowser(ctx *fasthttp.RequestCtx) bool {
	h := &ctx.Request.Header
	return len(h.Peek("Sec-Fetch-Site")) > 0 || len(h.Peek(fasthttp.HeaderReferer)) > 0 || bytes.HasPrefix(h.UserAgent(), []byte("Mozilla/"))
}

// tell sends a request to all workers, and calls did for each that answered 200.
func (f *allWorkers) tell(r *upstream.Request, did func(*worker.Worker)) (done []string, failed []FailedWorker) {
	done = []string{}
	var mu sync.Mutex // guards done and failed
	var wg sync.WaitGroup
	slots := make(chan struct{}, maxAtOnce)
	for _, w := range f.registry.Snapshot().Workers {
		if w.State() == worker.Dead {
			continue
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			err := f.tellOne(w, *r)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed = append(failed, FailedWorker{w.URL, err.Error()})
				return
			}
			did(w)
			done = append(done, w.URL)
		})
	}
	wg.Wait()
	slices.Sort(done)
	slices.SortFunc(failed, func(a, b FailedWorker) int { return cmp.Compare(a.URL, b.URL) })
	return done, failed
}

// tellOne sends the request to one worker, with its key.
func (f *allWorkers) tellOne(w *worker.Worker, r upstream.Request) error {
	r.Target = upstream.Target{Addr: w.Addr, TLS: w.TLS}
	r.Extra = append(slices.Clone(r.Extra), upstream.Field{Key: fasthttp.HeaderAuthorization, Value: w.Key().Admin()})
	resp, err := f.transport.Do(nil, &r)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Close() }()
	message, err := io.ReadAll(io.LimitReader(resp, maxToldError))
	switch {
	case err != nil:
		return err
	case resp.Status == fasthttp.StatusUnauthorized, resp.Status == fasthttp.StatusForbidden:
		return fmt.Errorf("status %d: give the worker's key in --worker-api-key-file, its --admin-api-key where it has one", resp.Status)
	case resp.Status != fasthttp.StatusOK:
		return fmt.Errorf("status %d: %s", resp.Status, strings.TrimSpace(string(message)))
	}
	return nil
}
