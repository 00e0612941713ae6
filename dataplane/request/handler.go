package request

import (
	"cmp"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
	"github.com/valyala/fastjson"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/ingress"
	"github.com/warmpath/warmpath/dataplane/origin"
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
	PromptCache *promptcache.Cache // nil: each chat is tokenized from its beginning
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
	vocabulary  atomic.Pointer[vocabularyTable]
	culprits    *culprits
	compressors upstream.Compressors
	inflations  inflations
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
	h.metrics = newMetrics(parts.Registry, cfg.Queue.Max >= 0)
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

// Config holds the settings of requests; zero fields take the defaults.
type Config struct {
	MaxBodyBytes int // default 64 MiB
	// GzipMinBytes is the length from which JSON answers are compressed for clients that ask;
	// default 4 KiB; negative: none are.
	GzipMinBytes int
	// Audience is the receivers of answers' X-Warmpath-* fields: AudienceAll (default),
	// AudienceOperators or AudienceNone.
	Audience string
	// SaltByKey gives the prompts of each key a cache of their own.
	SaltByKey bool
	// Origins of pages that may call the API from a browser; nil: the workers say.
	Origins *origin.Allowed
	// TrustPriority believes the priority in bodies of clients without a key.
	TrustPriority bool
	// Proxies are trusted to name the address of their client in X-Forwarded-For.
	Proxies     worker.Networks
	OperatorKey []byte // of operators; empty: no client counts as one
	// Plain chats carry their token ids to the worker, once the ids are proved.
	ForwardIDs bool
	// Further attempts before the answer begins; default 3; negative: none.
	Retries int
	// For which requests are refused that equal one that was in flight at the death of two engines;
	// default: they are not refused.
	Quarantine time.Duration
	Queue      QueueConfig
	Pair       PairConfig
	// FirstByteTimeout bounds the wait for an answer to begin; default 30 min: long prompts wait in
	// the worker's queue.
	FirstByteTimeout time.Duration
	StallTimeout     time.Duration  // between two reads of an answer; default 10 min
	DrainTimeout     time.Duration  // for requests in flight at shutdown; default 30 s
	Clients          ingress.Limits // of connections
	Log              *slog.Logger
}

// QueueConfig holds the settings of the queue in front of full workers.
type QueueConfig struct {
	// Waiting requests of a model; default 8192; negative: none ever waits.
	Max     int
	Timeout time.Duration // of a waiting request that names no deadline; default 10 s
	// Requests that fill a rank; 0: an eighth more than it runs at once, by its reports.
	MaxInFlight int
	FIFO        bool // first come, first served, without priorities and fairness
}

// PairConfig holds the settings of requests to a prefill and a decode worker.
type PairConfig struct {
	// Timeout bounds how long a stream's decode worker may take to begin after the prefill worker
	// has answered. The KV pages are there by then: the decode worker only adds the request to its
	// batch. Time in which it is full and goes on does not count.
	// Default 30 s; negative: FirstByteTimeout.
	Timeout time.Duration
	// PrefillTimeout bounds the prefill worker's silence; default FirstByteTimeout.
	PrefillTimeout time.Duration
	// Headers sends bootstrap address and room in headers instead of the body, for chats: the
	// workers must run with SGLANG_ENABLE_REQUEST_HEADER_OVERRIDES=1.
	Headers bool
}

func (c *Config) setDefaults() {
	c.MaxBodyBytes = cmp.Or(c.MaxBodyBytes, 64<<20)
	c.GzipMinBytes = cmp.Or(c.GzipMinBytes, defaultGzipMin)
	c.Retries = cmp.Or(c.Retries, 3)
	c.Audience = cmp.Or(c.Audience, AudienceAll)
	c.FirstByteTimeout = cmp.Or(c.FirstByteTimeout, 30*time.Minute)
	c.StallTimeout = cmp.Or(c.StallTimeout, 10*time.Minute)
	c.Pair.Timeout = cmp.Or(c.Pair.Timeout, 30*time.Second)
	c.Pair.PrefillTimeout = cmp.Or(c.Pair.PrefillTimeout, c.FirstByteTimeout)
	c.DrainTimeout = cmp.Or(c.DrainTimeout, 30*time.Second)
	if c.Log == nil {
		c.Log = slog.Default()
	}
}
