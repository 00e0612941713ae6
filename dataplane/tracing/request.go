package tracing

import (
	"context"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// maxText bounds a text of a client in a span, in bytes before those that are not UTF-8 are
// replaced.
const maxText = 256

// text returns a client's text for a span. A span that waits holds its texts, and no more of the
// body than those; OTLP is UTF-8, and a batch with other bytes cannot be sent.
func text(s string) string {
	return strings.Clone(strings.ToValidUTF8(s[:min(len(s), maxText)], "\uFFFD"))
}

// Names of the steps of a request.
const (
	StepTokenize  = "tokenize"
	StepQueue     = "queue"
	StepChoose    = "choose"
	StepFirstByte = "upstream first byte"
	StepPrefill   = "upstream prefill" // of a pair, to the end of the prefill worker's answer
	StepStream    = "stream"
)

// Request is the trace of one request. A nil Request has no spans.
type Request struct {
	t    *Tracer
	root trace.Span
}

// Now returns the time at which a step begins; zero without a trace.
func (r *Request) Now() time.Time {
	if r == nil {
		return time.Time{}
	}
	return time.Now()
}

// Step adds a step that began at from and ends now. err is why it failed.
func (r *Request) Step(name string, from time.Time, err error) {
	if r == nil || from.IsZero() {
		return
	}
	span := r.begin(name, from, trace.SpanKindInternal)
	fail(span, err)
	span.End()
}

// Attempt begins an attempt at a worker, a step of that name.
func (r *Request) Attempt(step, worker string) *Attempt {
	if r == nil {
		return nil
	}
	a := &Attempt{span: r.begin(step, time.Now(), trace.SpanKindClient)}
	a.span.SetAttributes(attribute.String("warmpath.worker", worker))
	fields := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(trace.ContextWithSpan(context.Background(), a.span), fields)
	a.parent = []byte(fields.Get("traceparent"))
	if state := fields.Get("tracestate"); state != "" {
		a.state = []byte(state)
	}
	return a
}

func (r *Request) begin(name string, from time.Time, kind trace.SpanKind) trace.Span {
	_, span := r.t.spans.Start(trace.ContextWithSpan(context.Background(), r.root), name, trace.WithTimestamp(from), trace.WithSpanKind(kind))
	return span
}

// End ends the request, by its answer's status. id is its X-Request-ID.
func (r *Request) End(status int, id []byte, model string) {
	if r == nil {
		return
	}
	r.root.SetAttributes(attribute.Int("http.response.status_code", status), attribute.String("warmpath.request_id", text(string(id))))
	if model != "" {
		r.root.SetAttributes(attribute.String("gen_ai.request.model", text(model)))
	}
	if status >= failedStatus {
		r.root.SetStatus(codes.Error, "")
	}
	r.root.End()
}

// failedStatus is the first status of HTTP that is a server's fault.
const failedStatus = 500

// Attempt is the span of an attempt. A nil Attempt has none.
type Attempt struct {
	span          trace.Span
	parent, state []byte
}

// Parent returns the traceparent and the tracestate for the worker, nil where there is none.
func (a *Attempt) Parent() (parent, state []byte) {
	if a == nil {
		return nil, nil
	}
	return a.parent, a.state
}

// Answered ends an attempt whose answer has begun.
func (a *Attempt) Answered(status int) {
	if a == nil {
		return
	}
	a.span.SetAttributes(attribute.Int("http.response.status_code", status))
	if status >= failedStatus {
		a.span.SetStatus(codes.Error, "")
	}
	a.span.End()
}

// Failed ends an attempt that failed.
func (a *Attempt) Failed(err error) {
	if a == nil {
		return
	}
	fail(a.span, err)
	a.span.End()
}

// fail marks a span as failed where err is an error.
func fail(span trace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, text(err.Error()))
	}
}
