package request

import (
	"strings"
	"time"

	"github.com/warmpath/warmpath/dataplane/tracing"
	"github.com/warmpath/warmpath/dataplane/upstream"
)

// beginTrace begins the trace of a request; nil where there is no tracing. Then a worker gets the
// client's traceparent and tracestate as they came, like any field.
func beginTrace(t *tracing.Tracer, c call, now time.Time) *tracing.Request {
	if t == nil {
		return nil
	}
	return t.Begin(&c.ctx.Request.Header, routeOf(string(c.path())), now)
}

// routeOf returns a path without the name or the id in it.
func routeOf(path string) string {
	const models = "/v1/models/"
	if strings.HasPrefix(path, models) {
		return models + "{model}"
	}
	if _, rest, ok := responsePath([]byte(path)); ok {
		return strings.TrimSuffix(pathResponses+"/{id}/"+rest, "/")
	}
	return path
}

// endTrace ends the trace of the exchange.
func (x *exchange) endTrace() {
	if x.trace != nil {
		x.trace.End(x.answer.status, x.call.name(), x.choice.prompt.Model)
	}
}

// appendParent appends the fields that make the worker's spans children of an attempt's. A worker
// that gets a parent gets no other's state.
func appendParent(extra []upstream.Field, span *tracing.Attempt) []upstream.Field {
	parent, state := span.Parent()
	if parent == nil {
		return extra
	}
	return append(extra, upstream.Field{Key: tracing.HeaderParent, Value: parent}, upstream.Field{Key: tracing.HeaderState, Value: state})
}
