package tracing

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	pb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/warmpath/warmpath/dataplane/secrets"
)

// ErrEndpoint is an endpoint that spans cannot be sent to.
var ErrEndpoint = errors.New("tracing: bad endpoint")

const (
	// tracesPath is where collectors take spans (OTLP 1.9, "OTLP/HTTP Request").
	tracesPath = "/v1/traces"
	// usualTimeout of an upload is that of the specification.
	usualTimeout = 10 * time.Second
	// maxReply bounds what is read of a collector's answer, so that the connection is used again.
	maxReply = 64 << 10
)

// uploader sends spans to a collector. It implements otlptrace.Client.
type uploader struct {
	url     string
	shown   string // url without a password
	header  http.Header
	timeout time.Duration
	client  *http.Client
	done    context.Context //nolint:containedctx // It ends uploads, whose own contexts are the SDK's.
	cancel  context.CancelFunc
}

// disabled reports whether the environment switches tracing off.
func disabled() bool {
	return strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") || os.Getenv("OTEL_TRACES_EXPORTER") == "none"
}

// setting returns a setting of OTLP from the environment: the one for traces, or for all.
func setting(name string) string {
	if v := os.Getenv("OTEL_EXPORTER_OTLP_TRACES_" + name); v != "" {
		return v
	}
	return os.Getenv("OTEL_EXPORTER_OTLP_" + name)
}

// CheckEndpoint refuses an endpoint that spans cannot be sent to; "" is none.
func CheckEndpoint(endpoint string) error {
	if endpoint == "" || disabled() {
		return nil
	}
	_, err := parseEndpoint(endpoint)
	return err
}

func parseEndpoint(endpoint string) (*url.URL, error) {
	at, err := url.Parse(endpoint)
	if err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "" || at.RawQuery != "" || at.Fragment != "" {
		return nil, fmt.Errorf("cannot use --otlp-endpoint %q: %w: want http://HOST:4318", secrets.MaskURL(endpoint), ErrEndpoint)
	}
	if p := setting("PROTOCOL"); p != "" && p != "http/protobuf" {
		return nil, fmt.Errorf("cannot use OTEL_EXPORTER_OTLP_PROTOCOL=%s: %w: want http/protobuf, which collectors take at port 4318", p, ErrEndpoint)
	}
	return at, nil
}

func newUploader(endpoint string) (*uploader, error) {
	at, err := parseEndpoint(endpoint)
	if err != nil {
		return nil, err
	}
	if at.Path = strings.TrimSuffix(at.Path, "/"); !strings.HasSuffix(at.Path, tracesPath) {
		at.Path += tracesPath
	}
	u := &uploader{url: at.String(), shown: secrets.MaskURL(at.String()), header: http.Header{"Content-Type": {"application/x-protobuf"}}, timeout: usualTimeout}
	if ms, err := strconv.Atoi(setting("TIMEOUT")); err == nil && ms > 0 {
		u.timeout = time.Duration(ms) * time.Millisecond
	}
	for field := range strings.SplitSeq(setting("HEADERS"), ",") {
		name, value, ok := strings.Cut(field, "=")
		if value, err := url.PathUnescape(strings.TrimSpace(value)); ok && err == nil {
			u.header.Set(strings.TrimSpace(name), value)
		}
	}
	u.client = &http.Client{
		Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 1, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true},
		// Another host would get the headers, which have keys.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	u.done, u.cancel = context.WithCancel(context.Background())
	return u, nil
}

// Start implements otlptrace.Client.
func (u *uploader) Start(context.Context) error { return nil }

// Stop implements otlptrace.Client.
func (u *uploader) Stop(context.Context) error { return nil }

// UploadTraces implements otlptrace.Client. A batch that fails is not sent again: the next one
// comes soon.
func (u *uploader) UploadTraces(ctx context.Context, spans []*pb.ResourceSpans) error {
	// The message is that of ExportTraceServiceRequest: field 1 of both is the same.
	body, err := proto.Marshal(&pb.TracesData{ResourceSpans: spans})
	if err != nil {
		return fmt.Errorf("cannot encode spans: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, u.timeout)
	defer cancel()
	defer context.AfterFunc(u.done, cancel)()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.url, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("cannot upload spans: %w", err)
	}
	req.Header = u.header.Clone()
	resp, err := u.client.Do(req)
	if err != nil {
		return fmt.Errorf("cannot upload spans: %w", secrets.URLError(err))
	}
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxReply))
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("cannot upload spans: the collector answers %s", resp.Status)
	}
	return nil
}

// close ends the upload under way and the connections.
func (u *uploader) close() {
	u.cancel()
	u.client.CloseIdleConnections()
}
