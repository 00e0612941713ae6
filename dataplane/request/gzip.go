package request

import (
	"bytes"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/upstream"
)

// defaultGzipMin is the length from which compression pays: an answer of 4 KiB takes 17 µs and
// becomes 2.3 KiB shorter, which a gigabit link sends in 18 µs. Most chat answers are shorter, and
// most Python clients send Accept-Encoding: gzip by default.
const defaultGzipMin = 4 << 10

// compresses reports whether the answer goes to the client as gzip: the client accepts it, and the
// answer is JSON, long enough and not compressed. Streams of events are never compressed: an event
// would wait for the next one.
func (a *answer) compresses(resp *upstream.Response) bool {
	c, smallest := a.x.call, a.x.h.live().GzipMinBytes
	if smallest < 0 || a.x.req.Stream || resp.Status != fasthttp.StatusOK {
		return false
	}
	if n := resp.ContentLength(); n >= 0 && n < int64(smallest) {
		return false
	}
	return c.http11() && acceptsGzip(c.peek(fasthttp.HeaderAcceptEncoding)) &&
		isJSON(resp.Peek(fasthttp.HeaderContentType)) &&
		len(resp.Peek(fasthttp.HeaderContentEncoding)) == 0 &&
		!bytes.Contains(resp.Peek(fasthttp.HeaderCacheControl), noTransform)
}

var (
	noTransform = []byte("no-transform") // RFC 9111 5.2.2.6
	typeJSON    = []byte("application/json")
)

// isJSON reports whether a media type is JSON, with any parameters.
func isJSON(mediaType []byte) bool {
	mediaType, _, _ = bytes.Cut(mediaType, []byte{';'})
	return bytes.EqualFold(bytes.TrimSpace(mediaType), typeJSON)
}

// acceptsGzip reports whether a client with this Accept-Encoding accepts gzip and does not prefer
// plain answers (RFC 9110 12.5.3).
func acceptsGzip(list []byte) bool {
	gzip, others, identity := -1, -1, -1 // in thousandths
	for len(list) > 0 {
		var item []byte
		item, list, _ = bytes.Cut(list, []byte{','})
		coding, params, _ := bytes.Cut(item, []byte{';'})
		q := quality(params)
		switch coding = bytes.TrimSpace(coding); {
		case bytes.EqualFold(coding, []byte("gzip")), bytes.EqualFold(coding, []byte("x-gzip")):
			gzip = max(gzip, q)
		case bytes.EqualFold(coding, []byte("identity")):
			identity = q
		case string(coding) == "*":
			others = q
		}
	}
	if gzip < 0 {
		gzip = others
	}
	return gzip > 0 && gzip >= identity
}

// quality reads "q=0.5" in thousandths: 1000 where it is absent, 0 where it is malformed.
func quality(params []byte) int {
	for len(params) > 0 {
		var param []byte
		param, params, _ = bytes.Cut(params, []byte{';'})
		k, v, _ := bytes.Cut(param, []byte{'='})
		if !bytes.EqualFold(bytes.TrimSpace(k), []byte{'q'}) {
			continue
		}
		v = bytes.TrimSpace(v)
		if len(v) == 0 || len(v) > len("0.000") || len(v) > 1 && v[1] != '.' || v[0] != '0' && v[0] != '1' {
			return 0
		}
		q, unit := int(v[0]-'0')*1000, 100
		for _, c := range v[min(len(v), 2):] {
			if c < '0' || c > '9' {
				return 0
			}
			q += int(c-'0') * unit
			unit /= 10
		}
		return min(q, 1000)
	}
	return 1000
}

// Compress compresses an answer of the router's own for a client that accepts gzip.
func (h *Handler) Compress(ctx *fasthttp.RequestCtx) {
	body, smallest := ctx.Response.Body(), h.live().GzipMinBytes
	if smallest < 0 || len(body) < smallest || !ctx.Request.Header.IsHTTP11() ||
		!acceptsGzip(ctx.Request.Header.Peek(fasthttp.HeaderAcceptEncoding)) {
		return
	}
	ctx.SetBody(h.compressors.AppendGzip(nil, body))
	ctx.Response.Header.Set(fasthttp.HeaderContentEncoding, "gzip")
	ctx.Response.Header.Set(fasthttp.HeaderVary, fasthttp.HeaderAcceptEncoding)
}
