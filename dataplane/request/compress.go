package request

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/upstream"
)

// headerBodyCompressed names the compression of a body to SGLang 0.5.23, which reads it only where
// it is started so.
const headerBodyCompressed = "X-Body-Compressed"

const (
	// freeInflation is the size that a body may have whatever its compressed one is, and
	// maxInflation how many times the compressed size it may have beyond that.
	freeInflation = 256 << 10
	maxInflation  = 128
	// aheadInflation is how far a body may be ahead of that while it is read: its beginning may be
	// denser than its rest. A bomb is found there and not at its end.
	aheadInflation = 4 << 20
	// maxWindow bounds the memory of a zstd frame's history. RFC 8878 recommends 8 MiB.
	maxWindow = 8 << 20
)

// acceptedEncodings are those of bodies.
const acceptedEncodings = "gzip, zstd"

// decompress replaces a compressed body by the plain one, which workers get: most of them read no
// other. limit bounds it in bytes.
func (c call) decompress(in inflations, limit int) error {
	header := &c.ctx.Request.Header
	encoding, own := c.peek(fasthttp.HeaderContentEncoding), c.peek(headerBodyCompressed)
	if len(encoding) == 0 && len(own) == 0 {
		return nil
	}
	coding := strings.ToLower(string(encoding) + string(own))
	if len(encoding) > 0 && len(own) > 0 || len(header.PeekAll(fasthttp.HeaderContentEncoding)) > 1 {
		return openai.UnknownCoding(coding)
	}
	body := c.body()
	limit = min(limit, freeInflation+maxInflation*len(body))
	var plain []byte
	var err error
	switch coding {
	case "identity":
		return nil
	case "gzip", "x-gzip":
		plain, err = in.inflate(&gzips, body, limit)
	case "zstd":
		plain, err = in.inflate(&zstds, body, limit)
	default:
		return openai.UnknownCoding(coding)
	}
	switch {
	case errors.Is(err, errInflated), errors.Is(err, zstd.ErrWindowSizeExceeded), errors.Is(err, zstd.ErrDecoderSizeExceeded):
		return openai.TooLarge(limit)
	case err != nil:
		return openai.BadRequest(fasthttp.HeaderContentEncoding, "The body is not what its encoding says: "+err.Error()+".")
	}
	c.ctx.Request.SetBodyRaw(plain)
	header.Del(fasthttp.HeaderContentEncoding)
	header.Del(headerBodyCompressed)
	return nil
}

var errInflated = errors.New("request: body is too large when decompressed")

// decoder reads one compressed body after another.
type decoder interface {
	io.Reader
	Reset(r io.Reader) error
}

var (
	gzips = sync.Pool{New: func() any { return decoder(new(gzip.Reader)) }}
	// In the goroutine of the reader: without a body it holds no goroutine.
	zstds = sync.Pool{New: func() any {
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderLowmem(true))
		if err != nil {
			panic(err) //nolint:forbidigo // options are constants
		}
		return decoder(d)
	}}
)

// inflations bounds the compressed bodies that are inflated at a time: the processors that they
// take from other requests, and the memory of bodies that prove too large.
type inflations chan struct{}

func newInflations() inflations { return make(inflations, max(runtime.GOMAXPROCS(0)/2, 1)) }

// inflate returns the plain body, of limit bytes at most.
func (in inflations) inflate(pool *sync.Pool, body []byte, limit int) ([]byte, error) {
	in <- struct{}{}
	defer func() { <-in }()
	d, _ := pool.Get().(decoder)
	defer pool.Put(d)
	src := bytes.NewReader(body)
	if err := d.Reset(src); err != nil {
		return nil, err
	}
	plain := make([]byte, 0, min(4*len(body), limit)+1)
	for {
		if len(plain) == cap(plain) {
			plain = append(make([]byte, 0, 2*cap(plain)), plain...)
		}
		n, err := d.Read(plain[len(plain):cap(plain)])
		plain = plain[:len(plain)+n]
		switch read := len(body) - src.Len(); {
		case len(plain) > min(limit, aheadInflation+maxInflation*read):
			return nil, errInflated
		case errors.Is(err, io.EOF):
			return plain, nil
		case err != nil:
			return nil, err
		}
	}
}

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
