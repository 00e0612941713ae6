package request_test

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/warmpath/warmpath/dataplane/request"
	"github.com/warmpath/warmpath/dataplane/tracing"
	"github.com/warmpath/warmpath/dataplane/tracing/otlptest"
)

const (
	clientTrace  = "0af7651916cd43dd8448eb211c80319c"
	clientSpan   = "b7ad6b7169203331"
	clientParent = "00-" + clientTrace + "-" + clientSpan + "-01"
	clientState  = "vendor=value"
)

// withTracing has the router send its spans to a collector. flush has it send the last ones.
func withTracing(t *testing.T) (with option, c *otlptest.Collector, flush func()) {
	t.Helper()
	c = otlptest.New(t)
	tracer, err := tracing.New(tracing.Config{Endpoint: c.URL})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- tracer.Run(ctx) }()
	t.Cleanup(cancel)
	return withParts(func(p *request.Parts) { p.Tracing = tracer }), c, func() {
		cancel()
		require.NoError(t, <-done)
	}
}

// tree has the spans of one request by their names, several of one name in the order of their beginning.
type tree map[string][]otlptest.Span

// treeOf checks that the spans are one request's: all but the request's own are its children.
func treeOf(t *testing.T, c *otlptest.Collector, root string) tree {
	t.Helper()
	spans := c.Await(t, patience, func(s []otlptest.Span) bool {
		return slices.ContainsFunc(s, func(s otlptest.Span) bool { return s.Name == root })
	})
	out := tree{}
	slices.SortFunc(spans, func(a, b otlptest.Span) int { return a.From.Compare(b.From) })
	for _, s := range spans {
		out[s.Name] = append(out[s.Name], s)
	}
	require.Len(t, out[root], 1)
	own := out[root][0]
	assert.Equal(t, pb.Span_SPAN_KIND_SERVER, own.Kind)
	for _, s := range spans {
		assert.Equal(t, "warmpath", s.Service)
		assert.Equal(t, own.Trace, s.Trace, s.Name)
		assert.False(t, s.To.Before(s.From), s.Name)
		if s.Name != root {
			assert.Equal(t, own.ID, s.Parent, "%s is a child of the request", s.Name)
			assert.False(t, s.From.Before(own.From) || s.To.After(own.To), "%s lies within the request", s.Name)
		}
	}
	return out
}

// names returns the names of a tree's spans but for the request's own, sorted, with their number.
func (tr tree) names(root string) (out []string) {
	for name, spans := range tr {
		for range spans {
			if name != root {
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return out
}

// parentOf returns what a worker is to get as the child of a span.
func parentOf(s otlptest.Span) string { return "00-" + s.Trace + "-" + s.ID + "-01" }

// TestSpansOfARequest: plain and streamed, as a part of the client's trace, which the worker goes on with.
func TestSpansOfARequest(t *testing.T) {
	for path, stream := range map[string]bool{"/generate": false, "/v1/completions": true} {
		t.Run(path, func(t *testing.T) {
			w := newFakeWorker(t, info(1))
			got := make(chan http.Header, 1)
			w.On(path, func(rw http.ResponseWriter, r *http.Request) {
				got <- r.Header
				if !stream {
					_, _ = io.WriteString(rw, idsReply)
					return
				}
				rw.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(rw, "data: {\"choices\":[{\"text\":\"\",\"delta\":{}}]}\n\ndata: [DONE]\n\n")
			})
			traced, c, flush := withTracing(t)
			h := start(t, []*fakeWorker{w}, traced)
			body := idsBody
			if stream {
				body = `{"model":"tiny","prompt":"x","stream":true}`
			}
			resp, _ := h.Do(http.MethodPost, h.Base+path+"?key=secret", body, "traceparent", clientParent, "tracestate", clientState, "X-Request-Id", "mine")
			require.Equal(t, http.StatusOK, resp.StatusCode)
			h.AwaitIdle()
			flush()
			root := "POST " + path
			tr := treeOf(t, c, root)
			assert.Equal(t, []string{"choose", "queue", "stream", "tokenize", "upstream first byte"}, tr.names(root))
			own, first, rest := tr[root][0], tr["upstream first byte"][0], tr["stream"][0]
			assert.Equal(t, []string{clientTrace, clientSpan, clientState}, []string{own.Trace, own.Parent, own.State})
			assert.Equal(t, "mine", own.Attributes["warmpath.request_id"])
			assert.Contains(t, own.Attributes["http.response.status_code"], "200")
			assert.Equal(t, w.URL, first.Attributes["warmpath.worker"])
			assert.Equal(t, pb.Span_SPAN_KIND_CLIENT, first.Kind)
			assert.False(t, rest.From.Before(first.From))
			header := <-got
			assert.Equal(t, []string{parentOf(first)}, header.Values("traceparent"))
			assert.Equal(t, []string{clientState}, header.Values("tracestate"))
			for _, s := range tr {
				assert.NotContains(t, s[0].Name, "secret")
				for _, v := range s[0].Attributes {
					assert.NotContains(t, v, "secret")
				}
			}
		})
	}
}

// TestSpansOfAFailover: each attempt has a choice and a span of its own, and each worker its own parent.
func TestSpansOfAFailover(t *testing.T) {
	parents := make(chan string, 2)
	var workers []*fakeWorker
	for range 2 {
		w := newFakeWorker(t, info(1))
		w.On("/generate", func(rw http.ResponseWriter, r *http.Request) {
			parents <- r.Header.Get("traceparent")
			if len(parents) == 1 { // the first worker that is asked
				panic(http.ErrAbortHandler)
			}
			_, _ = io.WriteString(rw, idsReply)
		})
		workers = append(workers, w)
	}
	traced, c, flush := withTracing(t)
	h := start(t, workers, traced)
	resp, got := h.Post("/generate", idsBody)
	require.Equal(t, http.StatusOK, resp.StatusCode, got)
	h.AwaitIdle()
	flush()
	tr := treeOf(t, c, "POST /generate")
	assert.Equal(t, []string{"choose", "choose", "queue", "stream", "tokenize", "upstream first byte", "upstream first byte"}, tr.names("POST /generate"))
	attempts := tr["upstream first byte"]
	assert.True(t, attempts[0].Failed)
	assert.False(t, attempts[1].Failed)
	assert.NotEqual(t, attempts[0].Attributes["warmpath.worker"], attempts[1].Attributes["warmpath.worker"])
	assert.Equal(t, []string{parentOf(attempts[0]), parentOf(attempts[1])}, []string{<-parents, <-parents})
	assert.Empty(t, tr["POST /generate"][0].Parent, "the client has no trace")
	assert.False(t, tr["POST /generate"][0].Failed)
}

// TestSpansOfAPair: both legs have a span, and each worker its leg's as its parent.
func TestSpansOfAPair(t *testing.T) {
	p, d := newPair(t, 1, 1, 1)
	parents := map[*fakeLeg]chan []string{p[0]: make(chan []string, 1), d[0]: make(chan []string, 1)}
	for l, to := range parents {
		l.does(func(l *fakeLeg, rw http.ResponseWriter, r *http.Request, b *pairBody) {
			to <- append(r.Header.Values("traceparent"), r.Header.Values("tracestate")...)
			meets(l, rw, r, b)
		})
	}
	traced, c, flush := withTracing(t)
	h := startPair(t, p, d, traced)
	resp, got := h.Do(http.MethodPost, h.Base+"/generate", idsBody, "traceparent", clientParent, "tracestate", clientState)
	require.Equal(t, http.StatusOK, resp.StatusCode, got)
	h.AwaitIdle()
	flush()
	tr := treeOf(t, c, "POST /generate")
	assert.Equal(t, []string{"choose", "queue", "stream", "tokenize", "upstream first byte", "upstream prefill"}, tr.names("POST /generate"))
	assert.Equal(t, []string{parentOf(tr["upstream prefill"][0]), clientState}, <-parents[p[0]])
	assert.Equal(t, []string{parentOf(tr["upstream first byte"][0]), clientState}, <-parents[d[0]])
	assert.Equal(t, p[0].URL, tr["upstream prefill"][0].Attributes["warmpath.worker"])
	assert.Equal(t, d[0].URL, tr["upstream first byte"][0].Attributes["warmpath.worker"])
}

// TestSpansOfRefusals: a request that no worker gets has a span too, and one that the client does not sample has none.
func TestSpansOfRefusals(t *testing.T) {
	w := newFakeWorker(t, info(1))
	parents := make(chan string, 1)
	w.On("/generate", func(rw http.ResponseWriter, r *http.Request) {
		parents <- r.Header.Get("traceparent")
		_, _ = io.WriteString(rw, idsReply)
	})
	traced, c, flush := withTracing(t)
	h := start(t, []*fakeWorker{w}, traced)
	h.Do(http.MethodPost, h.Base+"/generate", idsBody, "traceparent", strings.TrimSuffix(clientParent, "1")+"0")
	assert.Regexp(t, "^00-"+clientTrace+"-[0-9a-f]{16}-00$", <-parents, "nor does the worker")
	h.Do(http.MethodPost, h.Base+"/v1/chat/completions", "no JSON")
	h.AwaitIdle()
	flush()
	tr := treeOf(t, c, "POST /v1/chat/completions")
	assert.Empty(t, tr.names("POST /v1/chat/completions"))
	assert.Contains(t, tr["POST /v1/chat/completions"][0].Attributes["http.response.status_code"], "400")
}

// TestTraceContextPasses: without tracing too, untouched, to both kinds of workers.
func TestTraceContextPasses(t *testing.T) {
	w := newFakeWorker(t, info(1))
	p, d := newPair(t, 1, 1, 1)
	got := make(chan []string, 2)
	note := func(r *http.Request) { got <- append(r.Header.Values("traceparent"), r.Header.Values("tracestate")...) }
	w.On("/generate", func(rw http.ResponseWriter, r *http.Request) {
		note(r)
		_, _ = io.WriteString(rw, idsReply)
	})
	for _, l := range []*fakeLeg{p[0], d[0]} {
		l.does(func(l *fakeLeg, rw http.ResponseWriter, r *http.Request, b *pairBody) {
			note(r)
			meets(l, rw, r, b)
		})
	}
	for _, h := range []*harness{start(t, []*fakeWorker{w}), startPair(t, p, d)} {
		resp, _ := h.Do(http.MethodPost, h.Base+"/generate", idsBody, "traceparent", clientParent, "tracestate", clientState)
		require.Equal(t, http.StatusOK, resp.StatusCode)
		for range len(h.Registry.Snapshot().Workers) {
			assert.Equal(t, []string{clientParent, clientState}, <-got)
		}
	}
}
