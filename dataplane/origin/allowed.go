package origin

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/valyala/fasthttp"
)

// Allowed are the origins whose pages may call an API and read its answers (CORS). nil or empty
// allows none, and leaves answers as they are.
type Allowed struct {
	any     bool
	origins []string // as browsers write them: lower case, no default port
}

// preflightAge is in seconds how long a browser asks no more. Chromium takes up to two hours.
const preflightAge = "3600"

// ParseAllowed reads origins such as https://app.example:8443, or * for any.
func ParseAllowed(values []string) (*Allowed, error) {
	a := &Allowed{}
	for _, v := range values {
		if v == "*" {
			a.any = true
			continue
		}
		u, err := url.Parse(strings.ToLower(v))
		if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" || u.User != nil || strings.Contains(u.Host, "*") ||
			u.RawQuery != "" || u.Fragment != "" || strings.Trim(u.Path, "/") != "" {
			return nil, fmt.Errorf("cannot use the origin %q: want scheme and host of a page, such as https://app.example or http://localhost:3000, or * for any", v)
		}
		host := strings.TrimSuffix(u.Host, map[string]string{"http": ":80", "https": ":443"}[u.Scheme])
		a.origins = append(a.origins, u.Scheme+"://"+host)
	}
	return a, nil
}

// None reports whether no origin is allowed.
func (a *Allowed) None() bool { return a == nil || !a.any && len(a.origins) == 0 }

// Preflight answers a browser that asks whether a page may send a request. false: it may not, and
// nothing is answered. A preflight has no key, and the answer tells nothing of the API.
func (a *Allowed) Preflight(ctx *fasthttp.RequestCtx) bool {
	if a.of(ctx) == "" {
		return false
	}
	asked, h := &ctx.Request.Header, &ctx.Response.Header
	ctx.SetStatusCode(fasthttp.StatusNoContent)
	h.SetBytesV(fasthttp.HeaderAccessControlAllowMethods, asked.Peek(fasthttp.HeaderAccessControlRequestMethod))
	// A list, since * leaves out Authorization.
	if fields := asked.Peek(fasthttp.HeaderAccessControlRequestHeaders); len(fields) > 0 {
		h.SetBytesV(fasthttp.HeaderAccessControlAllowHeaders, fields)
	}
	h.Set(fasthttp.HeaderAccessControlMaxAge, preflightAge)
	return true
}

// Mark tells the browser whether the page may read an answer. It replaces the worker's fields:
// SGLang allows every page. Cookies are not allowed, for there are none: keys are bearer tokens.
func (a *Allowed) Mark(ctx *fasthttp.RequestCtx) {
	h := &ctx.Response.Header
	h.Del(fasthttp.HeaderAccessControlAllowCredentials)
	h.Del(fasthttp.HeaderAccessControlAllowOrigin)
	h.Del(fasthttp.HeaderAccessControlExposeHeaders)
	if !a.any {
		h.Add(fasthttp.HeaderVary, fasthttp.HeaderOrigin) // a cache keeps one answer for each
	}
	if from := a.of(ctx); from != "" {
		h.Set(fasthttp.HeaderAccessControlAllowOrigin, from)
		h.Set(fasthttp.HeaderAccessControlExposeHeaders, "*")
	}
}

// of returns the entry that allows the page of a request; "": none does.
func (a *Allowed) of(ctx *fasthttp.RequestCtx) string {
	from := ctx.Request.Header.Peek(fasthttp.HeaderOrigin)
	if a.any && len(from) > 0 {
		return "*"
	}
	if i := slices.IndexFunc(a.origins, func(known string) bool { return known == string(from) }); i >= 0 {
		return a.origins[i]
	}
	return ""
}

// IsPreflight reports whether a browser asks for the policy of another request.
func IsPreflight(ctx *fasthttp.RequestCtx) bool {
	return ctx.IsOptions() && len(ctx.Request.Header.Peek(fasthttp.HeaderAccessControlRequestMethod)) > 0
}
