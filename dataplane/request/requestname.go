package request

import (
	"math/rand/v2"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/upstream"
)

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
	if name := nameOf(h); saneName(name) && named(h) == 1 {
		return
	}
	h.Del(headerName)
	var made [madeName]byte
	h.SetBytesV(headerName, appendHex(appendHex(made[:0], rand.Uint64(), madeName/2), rand.Uint64(), madeName/2))
}

// nameOf returns a request's name, valid as long as its head.
func nameOf(h *fasthttp.RequestHeader) []byte { return h.Peek(headerName) }

// named counts the names that a client has given a request.
func named(h *fasthttp.RequestHeader) (n int) {
	for k := range h.All() {
		if string(k) == headerName {
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
	ctx.Response.Header.SetBytesV(headerName, nameOf(&ctx.Request.Header))
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
