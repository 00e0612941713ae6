package admin

import (
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/admin/console"
	"github.com/warmpath/warmpath/dataplane/admin/history"
	"github.com/warmpath/warmpath/dataplane/fleet"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/ingest"
	"github.com/warmpath/warmpath/dataplane/ingress"
	"github.com/warmpath/warmpath/dataplane/kvtier/directory"
	"github.com/warmpath/warmpath/dataplane/operator"
	"github.com/warmpath/warmpath/dataplane/origin"
	"github.com/warmpath/warmpath/dataplane/prompt/lint"
	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/prompt/promptcache"
	"github.com/warmpath/warmpath/dataplane/prompt/tokens"
	"github.com/warmpath/warmpath/dataplane/request"
	"github.com/warmpath/warmpath/dataplane/request/accesslog"
	"github.com/warmpath/warmpath/dataplane/routing"
	"github.com/warmpath/warmpath/dataplane/routing/peers"
	"github.com/warmpath/warmpath/dataplane/upstream"
	"github.com/warmpath/warmpath/radix"
)

// Config holds the API's settings.
type Config struct {
	Key string // bearer token of the operator API; "" asks for none
	// Hosts are names under which operators reach the API, besides loopback's; see origin.Guard.
	Hosts     []string
	OnClients bool // the clients' listener serves the operator API too
	Version   string
}

// Parts are the router's parts that the API reports on and changes.
type Parts struct {
	Requests  *request.Handler
	Registry  *worker.Registry
	Ingest    *ingest.Manager
	Index     *radix.Index
	Router    *routing.Router
	Transport *upstream.Transport

	Models      *tokens.Models               // nil: workers make all token ids
	PromptCache *promptcache.Cache           // nil: there is none
	Lint        *lint.Sampler                // nil: no prompts are sampled
	AccessLog   *accesslog.Log               // nil: there is none
	Snapshots   func() ingest.SnapshotStatus // nil: the index is not written
	Peers       *peers.Group                 // nil: the router is alone
	Cluster     Cluster                      // nil: the router is in none
	Tiers       func() directory.Status      // nil: the router has no tier directory
	Fleet       *fleet.Manager
	Config      func() ConfigStatus // nil: no configuration file

	Metrics []prometheus.Collector // served beside those of this package
}

// API serves the operator's API and the router's own paths of the clients' API.
type API struct {
	cfg Config
	key atomic.Pointer[string]
	responder

	refusals  *operator.Refusals
	index     *radix.Index
	metrics   *metrics
	status    *statusReport
	readiness *readiness
	workers   *workers
	nodes     *nodes
	explainer *explainer
	all       *allWorkers
	models    *modelList
}

// New returns an API over parts.
func New(cfg Config, parts Parts) *API {
	out := responder{parts.Requests}
	ready := &readiness{responder: out, registry: parts.Registry, router: parts.Router, ingest: parts.Ingest}
	refused := operator.NewRefusals(parts.Requests.Log())
	status := &statusReport{Parts: parts, version: cfg.Version, started: time.Now(), readiness: ready, refusals: refused}
	status.past = &traffic{requests: parts.Requests, registry: parts.Registry}
	status.history = history.New(status.past.counts)
	parts.Metrics = append(slices.Clone(parts.Metrics), refused.Count)
	a := &API{
		cfg: cfg, responder: out, refusals: refused, index: parts.Index,
		metrics:   newMetrics(&parts, cfg.Version),
		status:    status,
		readiness: ready,
		workers:   &workers{responder: out, fleet: parts.Fleet, status: status},
		nodes:     &nodes{responder: out, cluster: parts.Cluster, tiers: parts.Tiers},
		explainer: &explainer{responder: out, router: parts.Router, ingest: parts.Ingest, models: parts.Models},
		all: &allWorkers{
			responder: out, registry: parts.Registry, transport: parts.Transport, approx: parts.Router.Approx, known: parts.Router.Known,
		},
		models: &modelList{responder: out, registry: parts.Registry, started: status.started},
	}
	a.SetKey(cfg.Key)
	return a
}

// SetKey changes the bearer token of the operator API; "" asks for none.
func (a *API) SetKey(key string) { a.key.Store(&key) }

// Status returns the router's state now.
func (a *API) Status() Status { return a.status.now() }

// Ready reports whether some model can be served, and whether nothing is known to be on its way;
// lacks names the missing parts.
func (a *API) Ready() (some, all bool, lacks string) { return a.readiness.progress() }

// ServeClient answers a client's request where its path is the router's own, and reports whether it
// is.
func (a *API) ServeClient(ctx *fasthttp.RequestCtx) bool {
	path := string(ctx.Path())
	switch {
	case a.Operated(ctx):
		a.ServeOperator(ctx)
	case (healthPath(path) || readyPath(path)) && a.refusesMethod(ctx, path):
	case healthPath(path):
		ctx.SetBodyString("ok\n")
	case readyPath(path):
		a.readiness.serve(ctx)
	case path == "/v1/models" && (ctx.IsGet() || ctx.IsHead()):
		a.models.serve(ctx)
	case path == "/api/tags" && (ctx.IsGet() || ctx.IsHead()):
		a.models.serveTags(ctx)
	case a.isHeartbeat(ctx):
	case !a.cfg.OnClients && (operatorPath(path) || isForAll(ctx)):
		e := openai.NotFound(path)
		e.Message = "Nothing is served at " + path + " here: the operator API has an address of its own, --operator-listen."
		a.fail(ctx, e)
	default:
		return false
	}
	return true
}

// Open reports whether ServeClient answers a request without a client's key: it tells of the
// router's health, or belongs to the operator API.
func (a *API) Open(ctx *fasthttp.RequestCtx) bool {
	return a.Reserved(ctx.Path()) || a.Operated(ctx) || a.isHeartbeat(ctx)
}

// Operated reports whether ServeClient answers a request as the operator API.
func (a *API) Operated(ctx *fasthttp.RequestCtx) bool {
	return a.cfg.OnClients && (operatorPath(string(ctx.Path())) || isForAll(ctx))
}

// Reserved reports whether a path tells of the router's health or belongs to the operator API.
func (a *API) Reserved(path []byte) bool {
	return healthPath(string(path)) || readyPath(string(path)) || a.cfg.OnClients && operatorPath(string(path))
}

// isHeartbeat reports whether Ollama's client asks if a server runs. Where the console is at the
// root, that answers.
func (a *API) isHeartbeat(ctx *fasthttp.RequestCtx) bool {
	return !a.cfg.OnClients && ctx.IsHead() && string(ctx.Path()) == "/"
}

func healthPath(path string) bool {
	return path == "/health" || path == "/healthz" || path == "/liveness" || path == "/ping"
}

func readyPath(path string) bool {
	return path == "/ready" || path == "/readyz" || path == "/readiness"
}

// refusesMethod answers a request that would change a page that is only read, and reports whether
// it did. OPTIONS is the method of some load balancers' health checks.
func (a *API) refusesMethod(ctx *fasthttp.RequestCtx, path string) bool {
	checked := healthPath(path) || readyPath(path)
	switch {
	case ctx.IsGet(), ctx.IsHead(), checked && ctx.IsOptions():
		return false
	case checked:
		a.wrongMethod(ctx, "GET, HEAD, OPTIONS")
		return true
	}
	switch {
	case console.Has(path), path == "/status", path == "/history", path == "/choices", path == "/index", path == "/what_if", path == "/nodes", path == "/links", path == "/metrics", path == "/debug/index", path == "/list_workers", path == "/get_loads", path == "/v1/loads", strings.HasPrefix(path, operator.ProfilePath):
		const allowed = "GET, HEAD, OPTIONS"
		if ctx.IsOptions() { // "OPTIONS /" is HAProxy's check by default
			ctx.Response.Header.Set(fasthttp.HeaderAllow, allowed)
			ctx.SetStatusCode(fasthttp.StatusNoContent)
		} else {
			a.wrongMethod(ctx, allowed)
		}
		return true
	}
	return false
}

// operatorPath reports whether a path belongs to the operator API.
func operatorPath(path string) bool {
	switch path {
	case "/status", "/history", "/choices", "/index", "/what_if", "/nodes", "/links", "/metrics", "/workers", "/workers/drain", "/workers/cordon", "/debug/index", "/explain",
		"/list_workers", "/add_worker", "/remove_worker", "/get_loads", "/v1/loads":
		return true
	default:
		return console.Has(path) || strings.HasPrefix(path, operator.ProfilePath)
	}
}

// ServeOperator serves the operator API.
func (a *API) ServeOperator(ctx *fasthttp.RequestCtx) {
	path := string(ctx.Path())
	switch {
	case a.refusesMethod(ctx, path):
		return
	case healthPath(path):
		ctx.SetBodyString("ok\n")
		return
	case readyPath(path):
		a.readiness.serve(ctx)
		return
	}
	if e := a.foreign(ctx); e != nil {
		a.refusals.Foreign()
		a.fail(ctx, e)
		return
	}
	switch {
	case console.Has(path):
		// The page has no data; its requests carry the key.
		a.serveConsole(ctx, path)
		return
	case !a.authorized(ctx):
		a.fail(ctx, openai.Unauthorized())
		return
	}
	switch {
	case strings.HasPrefix(path, operator.ProfilePath):
		a.serveProfile(ctx)
		return
	case isForAll(ctx):
		a.all.serve(ctx, *a.key.Load() == "")
		return
	}
	switch path {
	case "/status":
		a.json(ctx, fasthttp.StatusOK, a.Status())
	case "/history":
		a.json(ctx, fasthttp.StatusOK, a.status.history.Report())
	case "/choices":
		a.explainer.serveRecent(ctx)
	case "/index":
		a.explainer.serveIndex(ctx)
	case "/what_if":
		a.explainer.serveWhatIf(ctx)
	case "/nodes":
		a.nodes.serve(ctx)
	case "/links":
		a.nodes.serveLinks(ctx)
	case "/metrics":
		a.metrics.serve(ctx)
		a.requests.Compress(ctx) // of 1,000 ranks it has 1 MB
	case "/workers":
		a.workers.serve(ctx)
	case "/list_workers":
		a.workers.list(ctx)
	case "/add_worker":
		a.workers.serveMethod(ctx, fasthttp.MethodPost)
	case "/remove_worker":
		a.workers.serveMethod(ctx, fasthttp.MethodDelete)
	case "/get_loads", "/v1/loads":
		a.workers.loads(ctx)
	case "/workers/drain":
		a.workers.serveMark(ctx, mark{"drain", a.workers.fleet.Drain})
	case "/workers/cordon":
		a.workers.serveMark(ctx, mark{"cordon", a.workers.fleet.Cordon})
	case "/explain":
		a.explainer.serve(ctx)
	case "/debug/index":
		ctx.SetContentType("text/plain; charset=utf-8")
		a.index.Dump(ctx, maxDumpNodes)
	default:
		a.fail(ctx, openai.NotFound(path))
	}
}

// serveConsole answers with a file of the console's page.
func (a *API) serveConsole(ctx *fasthttp.RequestCtx, path string) {
	body, kind := console.File(path)
	h := &ctx.Response.Header
	h.SetContentType(kind)
	h.Set("Content-Security-Policy", console.ContentSecurityPolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set(fasthttp.HeaderCacheControl, "no-cache") // the page is of this version of the router
	ctx.SetBody(body)
	a.requests.Compress(ctx)
}

// maxDumpNodes keeps /debug/index readable: some 100 KB of text.
const maxDumpNodes = 1000

// foreign returns an error for a request that a web page made a browser send. A key is needed for
// all that has data, and a page with a name of its own has none: names are checked without one.
func (a *API) foreign(ctx *fasthttp.RequestCtx) *openai.Error {
	guard := origin.Guard{Hosts: a.cfg.Hosts, AnyHost: *a.key.Load() != ""}
	err := guard.Check(ctx)
	if err == nil {
		return nil
	}
	return &openai.Error{
		Status: origin.Status(err), Type: "invalid_request_error", Code: "foreign_request", Message: "The operator API refuses the request: " + err.Error() + ".",
	}
}

// serveProfile serves a profile of the process to an operator who waits for it.
func (a *API) serveProfile(ctx *fasthttp.RequestCtx) {
	client := ingress.ClientOf(ctx.Conn())
	if e := operator.ServeProfile(ctx, func() bool { return client.Gone() || a.requests.Draining() }); e != nil {
		a.fail(ctx, &openai.Error{Status: e.Status, Type: "invalid_request_error", Param: e.Param, Code: e.Code, Message: e.Message})
	}
}

// authorized checks the operator key.
func (a *API) authorized(ctx *fasthttp.RequestCtx) bool {
	key := *a.key.Load()
	return key == "" || a.refusals.Allow(ctx, key)
}
