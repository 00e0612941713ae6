package otlptest

import (
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	pb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Span is a received span.
type Span struct {
	Trace, ID, Parent string // in hexadecimal digits; no Parent: ""
	Name, State       string
	Kind              pb.Span_SpanKind
	Failed            bool
	From, To          time.Time
	Attributes        map[string]string
	Service           string
}

// Collector is an HTTP server that takes spans.
type Collector struct {
	URL     string
	Headers chan http.Header // of the first uploads

	mu     sync.Mutex
	answer func(http.ResponseWriter, *http.Request) bool // guarded by mu
	spans  []Span                                        // guarded by mu

	changed chan struct{} // closed with the next upload; guarded by mu
}

// New returns a running Collector, which ends with the test.
func New(t testing.TB) *Collector {
	t.Helper()
	c := &Collector{Headers: make(chan http.Header, 16), changed: make(chan struct{})}
	server := httptest.NewServer(http.HandlerFunc(c.serve))
	t.Cleanup(server.Close)
	c.URL = server.URL
	return c
}

// Answer has f answer uploads; where f returns true their spans are taken as well.
func (c *Collector) Answer(f func(http.ResponseWriter, *http.Request) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answer = f
}

func (c *Collector) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var data pb.TracesData
	if r.URL.Path != "/v1/traces" || r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/x-protobuf" ||
		err != nil || proto.Unmarshal(body, &data) != nil {
		http.Error(w, "no upload of traces", http.StatusBadRequest)
		return
	}
	select {
	case c.Headers <- r.Header:
	default:
	}
	c.mu.Lock()
	answer := c.answer
	c.mu.Unlock()
	if answer != nil && !answer(w, r) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, rs := range data.GetResourceSpans() {
		service := ""
		for _, a := range rs.GetResource().GetAttributes() {
			if a.GetKey() == "service.name" {
				service = a.GetValue().GetStringValue()
			}
		}
		for _, ss := range rs.GetScopeSpans() {
			for _, s := range ss.GetSpans() {
				c.spans = append(c.spans, spanOf(s, service))
			}
		}
	}
	close(c.changed)
	c.changed = make(chan struct{})
}

func spanOf(s *pb.Span, service string) Span {
	out := Span{
		Trace: hex.EncodeToString(s.GetTraceId()), ID: hex.EncodeToString(s.GetSpanId()), Parent: hex.EncodeToString(s.GetParentSpanId()),
		Name: s.GetName(), State: s.GetTraceState(), Kind: s.GetKind(), Failed: s.GetStatus().GetCode() == pb.Status_STATUS_CODE_ERROR,
		From: time.Unix(0, int64(s.GetStartTimeUnixNano())), To: time.Unix(0, int64(s.GetEndTimeUnixNano())),
		Attributes: map[string]string{}, Service: service,
	}
	for _, a := range s.GetAttributes() {
		v := a.GetValue()
		out.Attributes[a.GetKey()] = v.GetStringValue()
		if v.GetStringValue() == "" {
			out.Attributes[a.GetKey()] = v.String()
		}
	}
	return out
}

// Await waits until enough reports true of the spans received so far, and returns them.
func (c *Collector) Await(t testing.TB, patience time.Duration, enough func([]Span) bool) []Span {
	t.Helper()
	late := time.After(patience)
	for {
		c.mu.Lock()
		spans, changed := slices.Clone(c.spans), c.changed
		c.mu.Unlock()
		if enough(spans) {
			return spans
		}
		select {
		case <-changed:
		case <-late:
			t.Fatalf("the collector has only %+v", spans)
		}
	}
}
