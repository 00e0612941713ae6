package request

import (
	"bytes"
	"errors"
	"math"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/origin"
	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/request/clientkey"
	"github.com/warmpath/warmpath/dataplane/request/jwks"
	"github.com/warmpath/warmpath/dataplane/routing"
	"github.com/warmpath/warmpath/dataplane/upstream"
)

// headerAPIKey is the field with the key in Anthropic's API.
const headerAPIKey = "X-Api-Key"

// ClientKey returns the key of a request; nil: the router asks for none. The error is the client's.
// A browser's preflight cannot send a key, and SGLang asks for none either.
func (h *Handler) ClientKey(ctx *fasthttp.RequestCtx) (*clientkey.Key, error) {
	if h.Keys == nil || origin.IsPreflight(ctx) {
		return nil, nil
	}
	header := &ctx.Request.Header
	authorization := header.Peek(headerAuthorization)
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
		x.own = strconv.AppendInt(append(x.own, `"priority":`...), int64(req.Priority), 10)
		return
	}
	req.Priority, req.HasPriority = 0, false
	if x.api == openai.APIResponses { // where SGLang 0.5.23 takes no null, and 0 is its default
		x.own = append(x.own, `"priority":0`...)
		return
	}
	x.own = append(x.own, `"priority":null`...)
}

var (
	errSalt = openai.BadRequest("cache_salt", "Cache salts that begin with "+clientkey.SaltPrefix+" are the router's.")
	// SGLang 0.5.23 reads no cache_salt in bodies of Anthropic's API.
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
	case x.api == openai.APIMessages:
		return errUnsalted
	}
	req.CacheSalt = key.Salt(req.RawCacheSalt())
	x.own = openai.AppendStringField(appendComma(x.own), "cache_salt", req.CacheSalt)
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

// appendKeys appends the fields that take the place of a client's keys: the worker's key, and none
// of Anthropic's API.
func (b *bodyWriter) appendKeys(extra []upstream.Field, key []byte) []upstream.Field {
	return append(extra, upstream.Field{Key: headerAuthorization, Value: key}, upstream.Field{Key: headerAPIKey})
}
