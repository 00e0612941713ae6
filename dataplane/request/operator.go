package request

import (
	"bytes"
	"context"
	"crypto/subtle"
	"errors"
	"strings"

	"github.com/valyala/fasthttp"
	"github.com/valyala/fastjson"

	"github.com/warmpath/warmpath/dataplane/admin/console"
	"github.com/warmpath/warmpath/dataplane/cluster"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/prompt/openai"
)

// operatorPath reports whether a path belongs to the operator's API.
func operatorPath(path string) bool {
	switch path {
	case "/", "/status", "/metrics", "/workers", "/workers/drain", "/console", "/debug/index", "/explain":
		return true
	default:
		return false
	}
}

// handleOperator serves the operator's API.
func (s *Server) handleOperator(ctx *fasthttp.RequestCtx) {
	path := string(ctx.Path())
	switch {
	case path == "/health":
		ctx.SetBodyString("ok\n")
		return
	case path == "/ready":
		s.serveReady(ctx)
		return
	case path == "/console" || path == "/": // holds no facts; its requests for /status carry the key
		ctx.SetContentType("text/html; charset=utf-8")
		ctx.SetBody(console.Page())
		return
	case !s.authorized(ctx):
		ctx.Response.Header.Set("WWW-Authenticate", "Bearer")
		s.fail(ctx, openai.Unauthorized())
		return
	}
	switch path {
	case "/status":
		s.serveJSON(ctx, fasthttp.StatusOK, s.Status())
	case "/metrics":
		s.serveMetrics(ctx)
	case "/workers":
		s.serveWorkers(ctx)
	case "/workers/drain":
		s.serveDrain(ctx)
	case "/explain":
		s.serveExplain(ctx)
	case flushPath:
		s.serveFlush(ctx)
	case "/debug/index":
		ctx.SetContentType("text/plain; charset=utf-8")
		s.Index.Dump(ctx, maxDumpNodes)
	default:
		s.fail(ctx, openai.NotFound(path))
	}
}

// maxDumpNodes keeps /debug/index readable and small: some 100 KB of text.
const maxDumpNodes = 1000

// authorized checks the operator's key, in constant time.
func (s *Server) authorized(ctx *fasthttp.RequestCtx) bool {
	if s.live().OperatorKey == "" {
		return true
	}
	token, ok := bytes.CutPrefix(ctx.Request.Header.Peek(fasthttp.HeaderAuthorization), []byte("Bearer "))
	return ok && subtle.ConstantTimeCompare(token, []byte(s.live().OperatorKey)) == 1
}

// serveWorkers lists, adds and removes workers.
func (s *Server) serveWorkers(ctx *fasthttp.RequestCtx) {
	switch string(ctx.Method()) {
	case fasthttp.MethodGet:
		s.serveJSON(ctx, fasthttp.StatusOK, map[string]any{"workers": s.Status().Workers})
	case fasthttp.MethodPost:
		s.changeWorker(ctx, func(url string, _ map[string]any) error {
			spec, err := workerSpec(url, ctx.PostBody())
			if err == nil {
				err = s.Fleet.Add(spec)
			}
			return err
		})
	case fasthttp.MethodDelete:
		s.removeWorker(ctx)
	default:
		s.wrongMethod(ctx, "GET, POST, DELETE")
	}
}

// serveDrain takes a worker out of the choice: POST {"url": …, "drain": true}. DELETE, or "drain": false, takes it back. In a
// cluster both hold at every router; the answer's scope says so.
func (s *Server) serveDrain(ctx *fasthttp.RequestCtx) {
	if !ctx.IsPost() && !ctx.IsDelete() {
		s.wrongMethod(ctx, "POST, DELETE")
		return
	}
	drain := ctx.IsPost()
	if v, err := fastjson.ParseBytes(ctx.PostBody()); err == nil && v.Exists("drain") && drain {
		drain = v.GetBool("drain")
	}
	s.changeWorker(ctx, func(url string, answer map[string]any) error {
		scope, err := s.Fleet.Drain(context.Background(), url, drain)
		answer["drain"], answer["scope"] = drain, "router"
		if scope.Cluster {
			answer["scope"] = "cluster"
		}
		if scope.Reason != "" {
			answer["reason"] = scope.Reason
		}
		return err
	})
}

// changeWorker applies change to the worker named by the query or the body. What change adds to answer is told too.
func (s *Server) changeWorker(ctx *fasthttp.RequestCtx, change func(url string, answer map[string]any) error) {
	url := workerURL(ctx)
	if url == "" {
		s.fail(ctx, openai.BadRequest("url", `Name the worker: {"url": "http://host:port"}, or ?url=….`))
		return
	}
	answer := map[string]any{"url": strings.TrimRight(url, "/")}
	err := change(url, answer)
	switch {
	case err == nil:
		s.serveJSON(ctx, fasthttp.StatusOK, answer)
	case errors.Is(err, worker.ErrUnknown):
		s.fail(ctx, &openai.Error{Status: fasthttp.StatusNotFound, Type: "invalid_request_error", Param: "url", Code: "worker_not_found", Message: err.Error()})
	case errors.Is(err, worker.ErrDuplicate):
		s.fail(ctx, &openai.Error{Status: fasthttp.StatusConflict, Type: "invalid_request_error", Param: "url", Code: "worker_exists", Message: err.Error()})
	case errors.Is(err, cluster.ErrDown):
		s.fail(ctx, openai.Overloaded(err.Error()))
	case errors.Is(err, worker.ErrBadURL):
		s.fail(ctx, openai.BadRequest("url", err.Error()))
	default:
		s.fail(ctx, openai.Internal(err.Error()))
	}
}

func workerURL(ctx *fasthttp.RequestCtx) string {
	if u := ctx.QueryArgs().Peek("url"); len(u) > 0 {
		return string(u)
	}
	return fastjson.GetString(ctx.PostBody(), "url")
}
