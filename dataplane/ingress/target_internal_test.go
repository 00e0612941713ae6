package ingress

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/valyala/fasthttp"
)

// TestTargets: a target is served in the one form that every server reads alike.
func TestTargets(t *testing.T) {
	check := func(method, target string) error {
		var h fasthttp.RequestHeader
		h.SetMethod(method)
		h.SetRequestURI(target)
		return checkTarget(&h, []byte("/v1/models/"))
	}
	for _, target := range []string{
		"/", "/v1/completions", "/v1/completions?", "/generate?a=b%20c", "/generate?a=/../x//y", "/generate?u=http://x/y", "/generate?x=%zz",
		"/v1/models/a%20b", "/v1/models/org/name", "/v1/models/org%2Fname", "/v1/models/org%2fname", "/v1/models/a:b@c", "/v1/models/50%25", "/v1/models/%C3%A4",
		"/.well-known", "/..a/b...", "/generate/", "http://x/generate", "HTTPS://x:1/generate?x", "http://x", "http://[::1]:8000/",
	} {
		assert.NoError(t, check("POST", target), target)
	}
	assert.NoError(t, check("OPTIONS", "*"))
	for _, target := range []string{
		"*", "generate", "//", "//v1/completions", "/v1//completions", "/v1/completions//", "/./generate", "/generate/.", "/x/../v1/completions", "/..", "/generate/..",
		"/v1%2fcompletions", "/v1%2Fcompletions", "/%761/completions", "/%2e%2e/generate", "/%2E/generate", "/v1/models/..%2f..%2fflush_cache", "/v1/models/x%2f%2fy", "/v1/models/%2fx",
		"/v1/models/x%2f..", "/%", "/%2", "/%zz", "/a%zzb", "/%00", "/%0a", "/%7f", "/a\\b", "/a%5cb", "/a#b", "/a?b#c", "/a\xc3\xa4", "/a|b", "/a\"b", "/a<b", "/a^b", "/a`b", "/a{b}", "/a[b]",
		"http://x//generate", "http://x/../generate", "ftp://x/generate", "http:///generate", "http://u:p@x/generate", "http:/generate", "x:443",
	} {
		assert.ErrorIs(t, check("POST", target), ErrRequest, target)
	}
}
