package sim

import (
	"strings"

	"github.com/valyala/fasthttp"
)

// allows decides as SGLang's decide_request_auth (srt/utils/auth.py, 0.5.23): routes that change
// the worker take the admin key alone where there is one, all others the API key.
func (c Config) allows(ctx *fasthttp.RequestCtx) bool {
	path := string(ctx.Path())
	if ctx.IsOptions() {
		return true
	}
	for _, free := range []string{"/health", "/ready"} {
		if strings.HasPrefix(path, free) {
			return true
		}
	}
	key := c.APIKey
	switch path {
	case "/flush_cache", "/abort_request", "/update_weights_from_disk":
		if c.AdminAPIKey != "" {
			key = c.AdminAPIKey
		}
	}
	scheme, token, _ := strings.Cut(string(ctx.Request.Header.Peek(fasthttp.HeaderAuthorization)), " ")
	return key == "" || (strings.EqualFold(scheme, "bearer") && token == key)
}
