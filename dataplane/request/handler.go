package request

import (
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/valyala/fasthttp"
	"github.com/valyala/fastjson"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/prompt/chattemplate"
	"github.com/warmpath/warmpath/dataplane/prompt/lint"
	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/prompt/promptcache"
	"github.com/warmpath/warmpath/dataplane/prompt/responses"
	"github.com/warmpath/warmpath/dataplane/prompt/tokens"
	"github.com/warmpath/warmpath/dataplane/request/accesslog"
	"github.com/warmpath/warmpath/dataplane/request/clientkey"
	"github.com/warmpath/warmpath/dataplane/request/disagg"
	"github.com/warmpath/warmpath/dataplane/routing"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
	"github.com/warmpath/warmpath/dataplane/routing/queue"
	"github.com/warmpath/warmpath/dataplane/tracing"
	"github.com/warmpath/warmpath/dataplane/upstream"
	"github.com/warmpath/warmpath/radix"
)

// Tokenizer turns text and messages into the token ids that a worker would make of them. target is
// the worker's URL.
type Tokenizer interface {
	Prompt(done <-chan struct{}, target string, req *openai.Request) (tokens.Prompt, error)
}

// Parts are the router's parts on a request's path.
type Parts struct {
	Registry  *worker.Registry
	Index     *radix.Index
	Router    *routing.Router
	Transport *upstream.Transport

	Tokenizer   Tokenizer          // nil: text is routed by the approximate tree only
	Models      *tokens.Models     // nil: workers make all token ids
	PromptCache *promptcache.Cache // nil: each prompt is read from its beginning
	Lint        *lint.Sampler      // nil: no prompts are sampled
	AccessLog   *accesslog.Log     // nil: there is none
	Tracing     *tracing.Tracer    // nil: requests have no spans
	Keys        *clientkey.Keys    // nil: clients need none
}

// Handler forwards clients' requests to workers.
type Handler struct {
	Parts
	config    atomic.Pointer[Config]
	log       *slog.Logger
	metrics   *Metrics
	exchanges sync.Pool
	inFlight  atomic.Int64
	draining  atomic.Bool

	aborts      *aborter
	sentIDs     sentIDs
	sources     sources
	rules       chattemplate.RulesOf
	proofs      proofs // of conversions
	turns       *responses.Turns
	admission   *admission // nil: requests never wait here
	rooms       *disagg.Rooms
	vocabulary  vocabularies
	culprits    *culprits
	compressors upstream.Compressors
	inflations  *inflations
}

// New returns a handler over parts.
func New(cfg Config, parts Parts) *Handler {
	cfg.setDefaults()
	h := &Handler{
		Parts: parts, log: cfg.Log, rooms: disagg.NewRooms(), turns: responses.NewTurns(maxTurnBytes), culprits: newCulprits(&cfg),
	}
	h.config.Store(&cfg)
	h.sources.seed = h.culprits.seed
	h.rules, h.proofs.log = rulesOf(parts.Registry, parts.Models), cfg.Log
	h.metrics = newMetrics(parts.Router, cfg.Queue.Max >= 0)
	if parts.Keys != nil {
		h.metrics.all = append(h.metrics.all, parts.Keys)
	}
	h.inflations = newInflations()
	h.admission = newAdmission(&cfg.Queue, parts.Router, h.metrics)
	h.aborts = newAborter(parts.Transport, h.metrics, cfg.Log)
	h.sentIDs.own, h.sentIDs.named = map[uint64]*exchange{}, map[string]holders{}
	h.exchanges.New = func() any { return newExchange(h) }
	return h
}

// live returns the settings in force.
func (h *Handler) live() *Config { return h.config.Load() }

// Configure changes settings while requests are served: requests that begin from then on have the
// new ones. change gets a copy of the settings in force. The rules of the queue stay, but for
// MaxInFlight.
func (h *Handler) Configure(change func(*Config)) {
	cfg := *h.live()
	change(&cfg)
	cfg.setDefaults()
	h.config.Store(&cfg)
	if h.admission != nil {
		h.admission.maxInFlight.Store(int64(cfg.Queue.MaxInFlight))
	}
}

// SetPolicy has another policy choose from the next request on.
func (h *Handler) SetPolicy(p policy.Policy) {
	h.Router.SetPolicy(p)
	h.metrics.ranks.policyChanged()
}

// Explain describes a request as serve does, and calls show with the choice for it. The explanation
// is valid during the call. No worker gets the request.
func (h *Handler) Explain(
	ctx *fasthttp.RequestCtx, seed uint64, show func(*routing.Explanation, *routing.Prompt),
) error {
	x := h.exchange()
	x.begin(call{ctx}, apiOfBody(ctx.PostBody()))
	defer x.release()
	if _, err := x.parse(ctx.PostBody()); err != nil {
		return err
	}
	x.inference = true
	x.prompt.read(&x.choice.prompt)
	explanation := h.Router.Explain(&x.choice.scratch, &x.choice.prompt, seed)
	show(&explanation, &x.choice.prompt)
	return nil
}

// apiOfBody returns the API that a body is for. Anthropic's differs from a chat by members that
// chats do not have: the system prompt, and the schema of tools.
func apiOfBody(body []byte) openai.API {
	switch {
	case fastjson.Exists(body, "system"), fastjson.Exists(body, "tools", "0", "input_schema"):
		return openai.APIMessages
	case fastjson.Exists(body, "messages"):
		return openai.APIChat
	case fastjson.Exists(body, "prompt"):
		return openai.APICompletions
	case fastjson.Exists(body, "input"):
		return openai.APIResponses
	default:
		return openai.APIGenerate
	}
}

// Serve answers a client's request: it forwards it to a worker, or aborts one.
func (h *Handler) Serve(ctx *fasthttp.RequestCtx) {
	key, err := h.ClientKey(ctx)
	if err != nil {
		h.Fail(ctx, ErrorFor(err, ""))
		return
	}
	path := string(ctx.Path())
	if key != nil {
		if name, ok := strings.CutPrefix(path, pathModels); ok && !key.Allows(name, "") {
			key.Refuse()
			h.Fail(ctx, openai.ModelForbidden(name))
			return
		}
	}
	switch path {
	case "/abort_request":
		h.abort(ctx, key)
		return
	case "/server_info", "/get_server_info":
		h.Fail(ctx, notForClients())
		return
	}
	api, method, ok := apiOf(path)
	if ctx.IsPut() && takesPut(path) {
		ctx.Request.Header.SetMethod(fasthttp.MethodPost) // which is the same there
	}
	switch {
	case !ok:
		h.Fail(ctx, openai.NotFound(path))
	case ctx.IsOptions(): // a browser's preflight: without Config.Origins the worker has the policy
		h.exchange().serve(call{ctx}, key, openai.APIOther, false)
	case method != string(ctx.Method()):
		if takesPut(path) {
			method += ", " + fasthttp.MethodPut
		}
		h.WrongMethod(ctx, method)
	default:
		_, _, stored := responsePath(ctx.Path())
		h.exchange().serve(call{ctx}, key, api, method == fasthttp.MethodPost && !stored)
	}
}

// notForClients answers for a worker's description of itself. SGLang's has its API keys and its
// command line.
func notForClients() *openai.Error {
	return &openai.Error{
		Status: fasthttp.StatusForbidden, Type: "invalid_request_error", Code: worker.RouterRefusal,
		Message: "This is a Warmpath router. The description of a worker has its keys and is not for clients: ask the worker itself, or GET /status.",
	}
}

// abort aborts the request that a client names, at the workers that have it. As at SGLang the
// answer is 200 also where no request has the name: it may have ended just now.
func (h *Handler) abort(ctx *fasthttp.RequestCtx, key *clientkey.Key) {
	body := ctx.PostBody()
	rid := fastjson.GetString(body, "rid")
	switch {
	case !ctx.IsPost() || rid == "":
		h.Fail(ctx, openai.BadRequest("rid", `Name the request: POST {"rid": "…"}.`))
		return
	case fastjson.GetBool(body, "abort_all"):
		h.Fail(ctx, openai.BadRequest("abort_all", "A router aborts one request at a time, by its rid."))
		return
	}
	mayAbort := func(owner *clientkey.Key) bool {
		return key == nil || owner == nil || key.Name == owner.Name || key == h.Keys.Operator()
	}
	client, room := h.sources.clientOf(key, call{ctx}, h.live().Proxies), true
	whole := h.sentIDs.abort(rid, mayAbort, func(x *exchange, ids []string) {
		d := &x.choice.decision
		for _, rank := range []*worker.Rank{d.Rank, d.Decode} {
			if rank != nil && len(ids) > 0 {
				room = h.aborts.sendFor(client, rank.Worker, nameOf(&ctx.Request.Header), ids) && room
			}
		}
	})
	switch {
	case !whole:
		h.Fail(ctx, openai.BadRequest("rid", "The names of other prompts of the batch begin with this one, so that they would end too: abort the whole batch, or give it a list of ids."))
	case !room:
		h.Fail(ctx, openai.RateLimited("Too many aborts are under way."))
	default:
		ctx.SetStatusCode(fasthttp.StatusOK)
	}
}

func (h *Handler) exchange() *exchange {
	x, _ := h.exchanges.Get().(*exchange)
	return x
}

// Metrics returns the counts of requests.
func (h *Handler) Metrics() *Metrics { return h.metrics }

// InFlight returns the number of requests that have not ended.
func (h *Handler) InFlight() int64 { return h.inFlight.Load() }

// Draining reports whether the router is shutting down.
func (h *Handler) Draining() bool { return h.draining.Load() }

// Queue returns the queue in front of full workers; nil where requests never wait here.
func (h *Handler) Queue() *queue.Gate {
	if h.admission == nil {
		return nil
	}
	return h.admission.gate
}

// Culprits returns how many requests were in flight when two engines died, and how many were
// refused because they equal one of these.
func (h *Handler) Culprits() (caught, refused uint64) {
	return h.culprits.caught.Load(), h.culprits.refused.Load()
}

// Conversions returns the proofs of conversions, by name.
func (h *Handler) Conversions() []ConversionStatus { return h.proofs.status() }

// Log returns the log of requests.
func (h *Handler) Log() *slog.Logger { return h.log }
