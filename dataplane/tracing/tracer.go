package tracing

import (
	"bytes"
	"cmp"
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Config holds the settings of a Tracer; zero fields take the defaults.
type Config struct {
	// Endpoint is the collector's URL, to which /v1/traces is added; "": there is no tracing.
	Endpoint string
	Version  string // of this program
	Log      *slog.Logger

	maxPending int           // default maxPending
	every      time.Duration // between two uploads; default uploadEvery
	flush      time.Duration // default flushTimeout
}

const (
	// maxPending bounds the spans that are not uploaded yet: one second of 300 requests/s. A span
	// takes 1 to 2 KB.
	maxPending = 2048
	// maxBatch bounds one upload, as in the SDK.
	maxBatch = 512
	// uploadEvery bounds the time of a span in memory, as in the SDK.
	uploadEvery = 5 * time.Second
	// flushTimeout bounds the last upload. A shutdown must not wait for a collector that is gone.
	flushTimeout = 5 * time.Second
	// scope names the origin of the spans.
	scope = "github.com/warmpath/warmpath"
)

// Tracer makes the spans of requests. A nil Tracer makes none.
type Tracer struct {
	cfg      Config
	provider *sdk.TracerProvider
	spans    trace.Tracer
	upload   *uploader

	pending  atomic.Int64
	uploaded atomic.Uint64
	failed   atomic.Uint64
	dropped  atomic.Uint64
}

// New returns a Tracer, nil where the configuration or the environment has none. Run uploads the
// rest of the spans at the end.
func New(cfg Config) (*Tracer, error) {
	if cfg.Endpoint == "" || disabled() {
		return nil, nil //nolint:nilnil // A nil Tracer is one.
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	cfg.maxPending = cmp.Or(cfg.maxPending, maxPending)
	cfg.every, cfg.flush = cmp.Or(cfg.every, uploadEvery), cmp.Or(cfg.flush, flushTimeout)
	upload, err := newUploader(cfg.Endpoint)
	if err != nil {
		return nil, err
	}
	// The SDK has one handler for the process, and prints what nobody takes.
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { cfg.Log.Warn("traces: the SDK", "error", err) }))
	about, err := resource.New(context.Background(),
		resource.WithAttributes(attribute.String("service.name", "warmpath"), attribute.String("service.version", cfg.Version)),
		resource.WithHost(), resource.WithTelemetrySDK(), resource.WithFromEnv(),
	)
	if err != nil {
		cfg.Log.Warn("traces: the environment describes this process in a way that is not understood", "error", err)
	}
	t := &Tracer{cfg: cfg, upload: upload}
	batches := sdk.NewBatchSpanProcessor(
		&exporter{t: t, otlp: otlptrace.NewUnstarted(upload)},
		// The Tracer's own bound holds before that of the SDK, which does not tell what it drops.
		sdk.WithMaxQueueSize(cfg.maxPending), sdk.WithMaxExportBatchSize(min(maxBatch, cfg.maxPending)), sdk.WithBatchTimeout(cfg.every),
	)
	t.provider = sdk.NewTracerProvider(sdk.WithResource(about), sdk.WithSpanProcessor(&bounded{SpanProcessor: batches, t: t}))
	t.spans = t.provider.Tracer(scope, trace.WithInstrumentationVersion(cfg.Version))
	return t, nil
}

// Run uploads the spans that are left when ctx ends, for a few seconds at most.
func (t *Tracer) Run(ctx context.Context) error {
	<-ctx.Done()
	flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.cfg.flush)
	defer cancel()
	err := t.provider.Shutdown(flush)
	t.upload.close() // also an upload under way
	if lost := t.pending.Load(); err != nil || lost > 0 {
		t.cfg.Log.Warn("traces: the last spans were not taken by the collector", "spans", lost, "error", err)
	}
	return nil
}

// bounded keeps back spans beyond the bound, and counts them.
type bounded struct {
	sdk.SpanProcessor
	t *Tracer
}

// OnEnd implements sdk.SpanProcessor.
func (b *bounded) OnEnd(s sdk.ReadOnlySpan) {
	switch {
	case !s.SpanContext().IsSampled():
	case b.t.pending.Add(1) > int64(b.t.cfg.maxPending):
		b.t.pending.Add(-1)
		b.t.dropped.Add(1)
	default:
		b.SpanProcessor.OnEnd(s)
	}
}

// exporter counts what is uploaded. Errors end here: the SDK would print them.
type exporter struct {
	t       *Tracer
	otlp    *otlptrace.Exporter
	failing bool
}

// ExportSpans implements sdk.SpanExporter, which is not called twice at a time.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	err := e.otlp.ExportSpans(ctx, spans)
	n := uint64(len(spans))
	e.t.pending.Add(-int64(len(spans)))
	switch {
	case err != nil:
		e.t.failed.Add(n)
		if !e.failing {
			e.t.cfg.Log.Warn("traces: the collector does not take spans, which are dropped until it does", "url", e.t.upload.shown, "error", err)
		}
	default:
		e.t.uploaded.Add(n)
		if e.failing {
			e.t.cfg.Log.Info("traces: the collector takes spans again", "url", e.t.upload.shown)
		}
	}
	e.failing = err != nil
	return nil
}

// Shutdown implements sdk.SpanExporter.
func (e *exporter) Shutdown(context.Context) error { return nil }

// Begin begins the trace of a request, as a part of the client's where its head has one. route is
// the path without names and ids.
func (t *Tracer) Begin(head *fasthttp.RequestHeader, route string, now time.Time) *Request {
	if t == nil {
		return nil
	}
	client := propagation.TraceContext{}.Extract(context.Background(), carrier{head})
	method := text(string(head.Method()))
	route = text(route)
	_, root := t.spans.Start(client, method+" "+route,
		trace.WithTimestamp(now), trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(attribute.String("http.request.method", method), attribute.String("http.route", route)),
	)
	return &Request{t: t, root: root}
}

// carrier reads the context of a client's trace from a head.
type carrier struct{ head *fasthttp.RequestHeader }

// Fields of a trace's context.
const (
	HeaderParent = "Traceparent"
	HeaderState  = "Tracestate"
)

// Get implements propagation.TextMapCarrier. More than one parent is none (W3C Trace Context 3.2),
// and all fields of a state are one list (3.3.1.1).
func (c carrier) Get(key string) string {
	values := c.head.PeekAll(key)
	switch {
	case len(values) == 1:
		return string(values[0])
	case key == "tracestate":
		return string(bytes.Join(values, []byte(",")))
	default:
		return ""
	}
}

// Set implements propagation.TextMapCarrier: a client's head is not changed.
func (carrier) Set(string, string) {}

// Keys implements propagation.TextMapCarrier.
func (carrier) Keys() []string { return nil }
