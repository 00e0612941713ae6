package admin

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"
	"github.com/valyala/fastjson"

	"github.com/warmpath/warmpath/dataplane/cluster"
	"github.com/warmpath/warmpath/dataplane/fleet"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/prompt/openai"
)

// workers answers /workers, /workers/drain and /workers/cordon, and the paths that sglang-router
// has in their place.
type workers struct {
	responder
	fleet  *fleet.Manager
	status *statusReport
}

// serve lists, adds and removes workers.
func (s *workers) serve(ctx *fasthttp.RequestCtx) {
	switch string(ctx.Method()) {
	case fasthttp.MethodGet:
		s.json(ctx, fasthttp.StatusOK, map[string]any{"workers": s.status.now().Workers})
	case fasthttp.MethodPost:
		s.change(ctx, func(url string, _ map[string]any) error {
			spec, err := workerSpec(url, ctx.PostBody())
			if err == nil {
				err = s.fleet.Add(spec)
			}
			return err
		})
	case fasthttp.MethodDelete:
		s.remove(ctx)
	default:
		s.wrongMethod(ctx, "GET, POST, DELETE")
	}
}

// serveMethod answers a path of sglang-router's for one method of /workers. Its requests are POST.
func (s *workers) serveMethod(ctx *fasthttp.RequestCtx, method string) {
	if !ctx.IsPost() {
		s.wrongMethod(ctx, fasthttp.MethodPost)
		return
	}
	ctx.Request.Header.SetMethod(method)
	s.serve(ctx)
}

// list answers GET /list_workers, in the form of sglang-router.
func (s *workers) list(ctx *fasthttp.RequestCtx) {
	urls := []string{}
	for _, w := range s.status.Registry.Snapshot().Workers {
		urls = append(urls, w.URL)
	}
	s.json(ctx, fasthttp.StatusOK, map[string]any{"urls": urls})
}

// workerLoad is a worker of GET /get_loads, in the form of sglang-router.
type workerLoad struct {
	Worker string `json:"worker"`
	// Load is the tokens of the KV pool that requests hold or wait for, of all its ranks; -1: not
	// known.
	Load int64 `json:"load"`
}

// loads answers GET /get_loads and /v1/loads.
func (s *workers) loads(ctx *fasthttp.RequestCtx) {
	all, now := []workerLoad{}, time.Now()
	for _, w := range s.status.Registry.Snapshot().Workers {
		one := workerLoad{Worker: w.URL, Load: -1}
		if w.State() == worker.Ready {
			one.Load = 0
			for _, r := range w.Ranks() {
				v := r.Load.View(now)
				one.Load += v.Used
			}
		}
		all = append(all, one)
	}
	s.json(ctx, fasthttp.StatusOK, map[string]any{"workers": all})
}

// workerSpec reads a body such as {"url": …, "role": "prefill", "bootstrap_port": 8998,
// "bootstrap_host": "10.0.0.1"}. Only the URL is needed: the worker reports the rest.
func workerSpec(url string, body []byte) (worker.Spec, error) {
	spec := worker.Spec{URL: url}
	v, err := fastjson.ParseBytes(body)
	if err != nil { // the URL was in the query
		return spec, nil //nolint:nilerr // and the body may be anything
	}
	if spec.Role, err = worker.ParseRole(string(v.GetStringBytes("role"))); err != nil {
		return spec, err
	}
	spec.Bootstrap.Host = string(v.GetStringBytes("bootstrap_host"))
	if port := v.Get("bootstrap_port"); port != nil {
		n, err := port.Int()
		if err != nil || n < 1 || n > 65535 {
			return spec, fmt.Errorf("cannot use bootstrap_port %s: %w: want 1 to 65535", port, worker.ErrBadURL)
		}
		spec.Bootstrap.Port = n
	}
	return spec, nil
}

// remove takes a worker away once its requests in flight have ended, or at once with ?now=true.
func (s *workers) remove(ctx *fasthttp.RequestCtx) {
	atOnce := false
	if now := ctx.QueryArgs().Peek("now"); len(now) > 0 {
		var err error
		if atOnce, err = strconv.ParseBool(string(now)); err != nil {
			s.fail(ctx, openai.BadRequest("now", "now must be true or false."))
			return
		}
	}
	s.change(ctx, func(url string, answer map[string]any) error {
		done, err := s.fleet.Remove(url, atOnce)
		answer["in_flight"] = done.InFlight
		if len(done.NamedBy) > 0 { // it stays out of this process only
			answer["named_by"] = done.NamedBy
		}
		answer["scope"] = "router" // other routers keep the worker; a drain is of the cluster
		return err
	})
}

// mark is the change that /workers/drain or /workers/cordon makes to a worker or node.
type mark struct {
	name string
	set  func(ctx context.Context, target fleet.Target, on bool) (fleet.Scope, error)
}

// serveMark drains or cordons a worker or node: POST {"url": …} or {"node": …}. DELETE, or
// "drain": false, ends that. In a cluster both hold at every router; the answer's scope says so.
func (s *workers) serveMark(ctx *fasthttp.RequestCtx, m mark) {
	if !ctx.IsPost() && !ctx.IsDelete() {
		s.wrongMethod(ctx, "POST, DELETE")
		return
	}
	on := ctx.IsPost()
	if v, err := fastjson.ParseBytes(ctx.PostBody()); err == nil && v.Exists(m.name) && on {
		if on, err = v.Get(m.name).Bool(); err != nil { // else "true" would end it
			s.fail(ctx, openai.BadRequest(m.name, m.name+" must be true or false."))
			return
		}
	}
	target, answer := fleet.Target{URL: named(ctx, "url"), Node: named(ctx, "node")}, map[string]any{m.name: on, "scope": "router"}
	switch {
	case (target.URL == "") == (target.Node == ""):
		s.fail(ctx, openai.BadRequest("url", `Name the worker: {"url": "http://host:port"}, or its node: {"node": "name"}.`))
		return
	case target.URL != "":
		answer["url"] = worker.NormalURL(target.URL)
	default:
		answer["node"] = target.Node
	}
	scope, err := m.set(context.Background(), target, on)
	if scope.Cluster {
		answer["scope"] = "cluster"
	}
	if scope.Reason != "" {
		answer["reason"] = scope.Reason
	}
	s.answer(ctx, answer, err)
}

// change applies a change to the worker that the query or the body names. The change may add
// members to the answer.
func (s *workers) change(ctx *fasthttp.RequestCtx, apply func(url string, answer map[string]any) error) {
	url := named(ctx, "url")
	if url == "" {
		s.fail(ctx, openai.BadRequest("url", `Name the worker: {"url": "http://host:port"}, or ?url=….`))
		return
	}
	answer := map[string]any{"url": worker.NormalURL(url)}
	s.answer(ctx, answer, apply(url, answer))
}

// answer tells how a change went.
func (s *workers) answer(ctx *fasthttp.RequestCtx, answer map[string]any, err error) {
	switch {
	case err == nil:
		s.json(ctx, fasthttp.StatusOK, answer)
	case errors.Is(err, worker.ErrUnknown):
		s.fail(ctx, targetError(fasthttp.StatusNotFound, "url", "worker_not_found", err))
	case errors.Is(err, fleet.ErrUnknownNode):
		s.fail(ctx, targetError(fasthttp.StatusNotFound, "node", "node_not_found", err))
	case errors.Is(err, worker.ErrDuplicate):
		s.fail(ctx, targetError(fasthttp.StatusConflict, "url", "worker_exists", err))
	case errors.Is(err, cluster.ErrDown):
		s.fail(ctx, openai.Overloaded(err.Error()))
	case errors.Is(err, worker.ErrBadURL), errors.Is(err, worker.ErrNetwork):
		s.fail(ctx, openai.BadRequest("url", err.Error()))
	default:
		s.fail(ctx, openai.Internal(err.Error()))
	}
}

// targetError is an error about the worker or node that a request names.
func targetError(status int, param, code string, err error) *openai.Error {
	return &openai.Error{
		Status: status, Type: "invalid_request_error", Param: param, Code: code, Message: err.Error(),
	}
}

// named returns the URL or node of the query, or of the body.
func named(ctx *fasthttp.RequestCtx, what string) string {
	if v := ctx.QueryArgs().Peek(what); len(v) > 0 {
		return string(v)
	}
	return fastjson.GetString(ctx.PostBody(), what)
}
