package request

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/ingress"
	"github.com/warmpath/warmpath/dataplane/origin"
	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/request/clientkey"
	"github.com/warmpath/warmpath/dataplane/request/jwks"
	"github.com/warmpath/warmpath/dataplane/routing"
	"github.com/warmpath/warmpath/dataplane/upstream"
)

// call is a client's request with its body, and the way to answer it.
type call struct{ ctx *fasthttp.RequestCtx }

func (c call) body() []byte { return c.ctx.Request.Body() }

func (c call) method() []byte { return c.ctx.Method() }

// path returns the target without its query.
func (c call) path() []byte { return c.ctx.Path() }

// target returns the target for the worker.
func (c call) target() []byte { return originForm(c.ctx.RequestURI()) }

// peek returns a field by its canonical name, which fasthttp would else make anew for each look-up.
func (c call) peek(name string) []byte { return c.ctx.Request.Header.PeekCanonical([]byte(name)) }

// appendLines appends the header fields that may go to a worker.
func (c call) appendLines(dst []byte, extra []upstream.Field) []byte {
	return upstream.AppendLines(dst, &c.ctx.Request.Header, extra)
}

// http11 reports whether the client understands chunked answers.
func (c call) http11() bool { return c.ctx.Request.Header.IsHTTP11() }

// client returns the request's connection.
func (c call) client() *ingress.Client { return ingress.ClientOf(c.ctx.Conn()) }

// address returns the address of the client, or its network of IPv6.
func (c call) address(proxies worker.Networks) netip.Addr {
	return ingress.NetworkOf(c.sender(proxies))
}

// sender returns the address of the client. A proxy that is trusted names it: X-Forwarded-For grows
// to the right, and all that is left of the first address that is not trusted can be invented.
func (c call) sender(proxies worker.Networks) netip.Addr {
	addr := netip.Addr{}
	if tcp, ok := c.ctx.RemoteAddr().(*net.TCPAddr); ok {
		addr = tcp.AddrPort().Addr().Unmap()
	}
	if !proxies.Contains(addr) {
		return addr
	}
	for _, line := range slices.Backward(c.ctx.Request.Header.PeekAll(fasthttp.HeaderXForwardedFor)) {
		for more := true; more; {
			item := line
			at := bytes.LastIndexByte(line, ',')
			if more = at >= 0; more {
				line, item = line[:at], line[at+1:]
			}
			next, ok := forwardedAddr(string(bytes.TrimSpace(item)))
			if !ok {
				return addr
			}
			if addr = next; !proxies.Contains(addr) {
				return addr
			}
		}
	}
	return addr
}

// forwardedAddr reads an element of X-Forwarded-For, with or without a port.
func forwardedAddr(text string) (netip.Addr, bool) {
	if at, err := netip.ParseAddrPort(text); err == nil {
		return at.Addr().Unmap(), true
	}
	addr, err := netip.ParseAddr(strings.Trim(text, "[]"))
	return addr.Unmap(), err == nil
}

// originForm returns a request's target as workers want it. A client that uses this router as its
// proxy sends scheme and host in front, which not every worker understands.
func originForm(target []byte) []byte {
	if len(target) == 0 || target[0] == '/' {
		return target
	}
	_, rest, ok := bytes.Cut(target, []byte("://"))
	if i := bytes.IndexByte(rest, '/'); ok && i >= 0 {
		return rest[i:]
	}
	return target
}

// headerName is the field with a request's name, by which logs of clients, router and workers are
// joined. SGLang 0.5.23 can log the field and does nothing else with it: the id by which a worker
// aborts a request is another one (see requestID), so that no client names another's request.
const headerName = "X-Request-Id"

// logKeyName is the key of a request's name in log lines.
const logKeyName = "request_id"

const (
	// maxName bounds the names of clients: UUIDs have 36 bytes, and a log line has room.
	maxName = 128
	// madeName is the length of the router's own names: 128 bits, which never meet.
	madeName = 32
)

// nameRequest gives a request its name: the client's, where there is one and it is sane, or a new
// one. It is part of the request's head from then on.
func nameRequest(h *fasthttp.RequestHeader) {
	if name := nameOf(h); saneName(name) && countField(h, headerName) == 1 {
		return
	}
	var made [madeName]byte
	h.SetCanonical([]byte(headerName), appendHex(appendHex(made[:0], rand.Uint64(), madeName/2), rand.Uint64(), madeName/2))
}

// nameOf returns a request's name, valid as long as its head.
func nameOf(h *fasthttp.RequestHeader) []byte { return h.PeekCanonical([]byte(headerName)) }

// countField counts the fields of a name, which is canonical. PeekAll would make the name anew, and
// Peek takes an empty field for none.
func countField(h *fasthttp.RequestHeader, name string) (n int) {
	for k := range h.All() {
		if string(k) == name {
			n++
		}
	}
	return n
}

// saneName reports whether a name can stand in a log: visible ASCII of a bounded length.
func saneName(name []byte) bool {
	for _, c := range name {
		if c <= ' ' || c >= 0x7f {
			return false
		}
	}
	return len(name) > 0 && len(name) <= maxName
}

// answerName puts a request's name into its answer.
func answerName(ctx *fasthttp.RequestCtx) {
	ctx.Response.Header.SetCanonical([]byte(headerName), nameOf(&ctx.Request.Header))
}

// withName has h answer requests by their names.
func withName(h fasthttp.RequestHandler) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		nameRequest(&ctx.Request.Header)
		h(ctx)
		answerName(ctx)
	}
}

// name returns the request's name.
func (c call) name() []byte { return nameOf(&c.ctx.Request.Header) }

// nameField is the name for a worker. A client cannot keep it back by its Connection field.
func (c call) nameField() upstream.Field { return upstream.Field{Key: headerName, Value: c.name()} }

// headerAPIKey is the field with the key in Anthropic's API.
const headerAPIKey = "X-Api-Key"

// ClientKey returns the key of a request; nil: the router asks for none. The error is the client's.
// A browser's preflight cannot send a key, and SGLang asks for none either.
func (h *Handler) ClientKey(ctx *fasthttp.RequestCtx) (*clientkey.Key, error) {
	if h.Keys == nil || origin.IsPreflight(ctx) {
		return nil, nil
	}
	header := &ctx.Request.Header
	authorization := header.Peek(fasthttp.HeaderAuthorization)
	now := time.Now()
	key, err := h.Keys.Authenticate(bearer(authorization), now)
	if key != nil {
		return key, nil
	}
	if given := header.Peek(headerAPIKey); len(given) > 0 {
		if key, err = h.Keys.Authenticate(given, now); key != nil {
			return key, nil
		}
	}
	if isOperator(authorization, h.live().OperatorKey) {
		return h.Keys.Operator(), nil
	}
	return nil, unauthorized(err)
}

// reasonToken is the reason that a client gets for any token that is refused.
const reasonToken = "invalid_token"

// unauthorized is the answer to a secret that is no client's.
func unauthorized(err error) *openai.Error {
	e := openai.Unauthorized()
	var token *jwks.TokenError
	switch {
	case errors.Is(err, clientkey.ErrNoKey):
		e.Reason = "no_key"
	case !errors.As(err, &token):
		e.Reason = "unknown_key"
	case token.Later:
		e = openai.Overloaded("The router cannot check this token now: try again.")
		e.Hidden = token.Cause
	default:
		e.Reason, e.Hidden = reasonToken, token.Cause
	}
	return e
}

// bearer returns the token of an Authorization field; nil: it has none.
func bearer(authorization []byte) []byte {
	scheme, token, _ := bytes.Cut(authorization, []byte(" "))
	if !bytes.EqualFold(scheme, []byte("bearer")) {
		return nil
	}
	return bytes.TrimSpace(token)
}

// credential is the key of a request, and the share of its limits that the request has.
type credential struct {
	key    *clientkey.Key // nil: the router asks for none
	inside bool           // the key has let the request in
	taken  int            // tokens of the prompt
	used   bool           // a worker has computed them
}

// begin lets the request in.
func (c *credential) begin(key *clientkey.Key, now time.Time) error {
	if key == nil {
		return nil
	}
	c.key = key
	err := key.Begin(now)
	c.inside = err == nil
	return err
}

// take takes the tokens of the prompt.
func (c *credential) take(prompt *routing.Prompt) error {
	if c.key == nil {
		return nil
	}
	n := prompt.Len() + prompt.Rest
	err := c.key.Take(time.Now(), n)
	if err == nil {
		c.taken = n
	}
	return err
}

// answered counts the tokens that a worker has computed.
func (c *credential) answered(now time.Time, prompt, completion int) {
	if c.key != nil {
		c.used = true
		c.key.Answered(now, c.taken, prompt, completion)
	}
}

// end gives back the request's place, and its tokens where no worker has computed them.
func (c *credential) end() {
	if c.inside {
		if !c.used {
			c.key.GiveBack(time.Now(), c.taken)
		}
		c.key.End()
	}
	*c = credential{}
}

// deadline returns the longest deadline of the request; 0: any.
func (c *credential) deadline() time.Duration {
	if c.key == nil {
		return 0
	}
	return c.key.Deadline
}

// name returns the name of the key; "": there is none.
func (c *credential) name() string {
	if c.key == nil {
		return ""
	}
	return c.key.Name
}

// checkModel refuses a model that the key may not use. A request that leaves the model open is for
// any that is served.
func (x *exchange) checkModel() error {
	key, req := x.credential.key, &x.req
	if key == nil || !key.Limited() {
		return nil
	}
	if req.ManyAdapters() {
		key.Refuse()
		return errManyAdapters
	}
	if !routing.Wildcard(req.Model) {
		if key.Allows(req.Model, req.LoRA) {
			return nil
		}
		key.Refuse()
		return openai.ModelForbidden(req.Model)
	}
	open := false
	for _, w := range x.h.Registry.Snapshot().Workers {
		if info := w.Info(); info != nil {
			if open = key.Allows(info.Model(), req.LoRA); !open {
				break
			}
		}
	}
	if !open {
		key.Refuse()
		return errNameModel
	}
	return nil
}

var (
	errNameModel    = openai.Forbidden("model", "This API key may not use every model here: name one that it may.")
	errManyAdapters = openai.Forbidden("lora_path", "This API key may use certain adapters only: name one for all prompts.")
)

// limitPriority gives the request the highest priority that it may have. The worker gets the same.
func (x *exchange) limitPriority() {
	req := &x.req
	if !req.HasPriority {
		return
	}
	key := x.credential.key
	switch {
	case key == nil && x.h.live().TrustPriority, key != nil && key.HasPriority && req.Priority <= key.Priority:
		return
	case key != nil && key.HasPriority:
		req.Priority = key.Priority
		x.own = strconv.AppendInt(openai.AppendName(x.own, "priority"), int64(req.Priority), 10)
		return
	}
	req.Priority, req.HasPriority = 0, false
	if x.api == openai.APIResponses { // where SGLang 0.5.23 takes no null, and 0 is its default
		x.own = append(openai.AppendName(x.own, "priority"), '0')
		return
	}
	x.own = append(openai.AppendName(x.own, "priority"), "null"...)
}

var (
	errSalt = openai.BadRequest("cache_salt", "Cache salts that begin with "+clientkey.SaltPrefix+" are the router's.")
	// SGLang 0.5.23 reads no cache_salt in bodies of Anthropic's API and Ollama's.
	errUnsalted = openai.BadRequest("", "Workers cannot keep the cache of this API key apart on this path: use /v1/chat/completions.")
)

// saltPrompt gives the prompt the cache salt of its key, where prompts of keys have caches of their
// own. A salt that the body has parts that cache, and replaces it for no other than a key that may.
func (x *exchange) saltPrompt() error {
	key, req := x.credential.key, &x.req
	switch {
	case key == nil || x.api == openai.APIOther || !x.h.live().SaltByKey:
		return nil
	case key.OwnSalt && req.SaltBegins(clientkey.SaltPrefix):
		return errSalt
	case key.OwnSalt:
		return nil
	case x.api == openai.APIMessages, x.api == openai.APIOllama:
		return errUnsalted
	}
	req.CacheSalt = key.Salt(req.RawCacheSalt())
	x.own = openai.AppendStringField(x.own, "cache_salt", req.CacheSalt)
	return nil
}

// setLimit names the limit that a request is beyond, in OpenAI's header fields.
func setLimit(ctx *fasthttp.RequestCtx, err error) {
	var beyond *clientkey.LimitError
	if !errors.As(err, &beyond) {
		return
	}
	seconds := time.Duration(math.Ceil(beyond.RetryAfter.Seconds())) * time.Second
	setRetryAfter(ctx, max(seconds, time.Second))
	if beyond.Reset == 0 {
		return
	}
	set := func(kind, value string) {
		ctx.Response.Header.Set("X-Ratelimit-"+kind+"-"+beyond.Reason.String(), value)
	}
	set("Limit", strconv.Itoa(beyond.Limit))
	set("Remaining", strconv.Itoa(beyond.Remaining))
	set("Reset", beyond.Reset.Round(time.Millisecond).String())
}
