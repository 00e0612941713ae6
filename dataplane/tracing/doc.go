// Package tracing makes the spans of requests, and sends them to an OpenTelemetry collector by OTLP
// over HTTP.
//
// A request's own span has the steps tokenize, queue, choose, "upstream first byte" (one for each
// attempt; of a pair also "upstream prefill") and stream below it. The span of an attempt is the
// worker's parent. The official SDK makes and batches the spans, and its OTLP package encodes them;
// only the upload is here, since the official one brings gRPC. It takes OTEL_EXPORTER_OTLP_HEADERS,
// OTEL_EXPORTER_OTLP_TIMEOUT and their _TRACES_ forms from the environment, the SDK takes
// OTEL_TRACES_SAMPLER, OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES.
//
// # Concurrency
//
// All methods may be called from any goroutine and never wait, but for [Tracer.Run]. Spans that the
// collector does not take in time are dropped and counted. All methods of nil values do nothing: so
// tracing that is off costs nothing.
//
// # Errors
//
// [New] refuses an endpoint that is no URL. Failed uploads are logged once until one succeeds.
package tracing
