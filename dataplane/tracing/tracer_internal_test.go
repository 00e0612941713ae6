package tracing

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"
	"go.uber.org/goleak"

	"github.com/warmpath/warmpath/dataplane/testkit"
	"github.com/warmpath/warmpath/dataplane/tracing/otlptest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = time.Minute

// running returns a Tracer that runs until end.
func running(t *testing.T, cfg Config) (tr *Tracer, end func()) {
	t.Helper()
	tr, err := New(cfg)
	require.NoError(t, err)
	require.NotNil(t, tr)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- tr.Run(ctx) }()
	end = sync.OnceFunc(func() {
		cancel()
		assert.NoError(t, <-done)
	})
	t.Cleanup(end)
	return tr, end
}

// requests makes n spans.
func requests(tr *Tracer, n int) {
	head := &fasthttp.RequestHeader{}
	for range n {
		tr.Begin(head, "/x", time.Now()).End(200, []byte("id"), "m")
	}
}

// counted returns the metric's series.
func counted(t *testing.T, tr *Tracer) map[string]float64 {
	t.Helper()
	out, ch := map[string]float64{}, make(chan prometheus.Metric, 8)
	tr.Collector().Collect(ch)
	close(ch)
	for m := range ch {
		var row dto.Metric
		require.NoError(t, m.Write(&row))
		out[row.GetLabel()[0].GetValue()] = row.GetCounter().GetValue()
	}
	return out
}

// TestSlowCollector: while a collector holds an upload, the spans that wait are bounded and the rest is dropped and counted. No
// request waits for it.
func TestSlowCollector(t *testing.T) {
	c := otlptest.New(t)
	held, goOn := make(chan struct{}, 16), make(chan struct{})
	c.Answer(func(http.ResponseWriter, *http.Request) bool {
		held <- struct{}{}
		<-goOn
		return true
	})
	tr, end := running(t, Config{Endpoint: c.URL, maxPending: 8, every: time.Millisecond})
	requests(tr, 1)
	<-held
	requests(tr, 20)
	assert.Equal(t, map[string]float64{"uploaded": 0, "failed": 0, "dropped": 13}, counted(t, tr))
	close(goOn)
	end()
	spans := c.Await(t, patience, func(s []otlptest.Span) bool { return len(s) == 8 })
	assert.Equal(t, "GET /x", spans[0].Name)
	assert.Equal(t, map[string]float64{"uploaded": 8, "failed": 0, "dropped": 13}, counted(t, tr))
}

// TestCollectorComesBack: a collector that refuses is logged once, its spans are counted as failed, and the next ones are taken.
func TestCollectorComesBack(t *testing.T) {
	c, log := otlptest.New(t), &testkit.Text{}
	c.Answer(func(w http.ResponseWriter, _ *http.Request) bool {
		http.Error(w, "full", http.StatusServiceUnavailable)
		return false
	})
	url := strings.Replace(c.URL, "http://", "http://user:secret@", 1)
	tr, _ := running(t, Config{Endpoint: url, every: time.Millisecond, Log: log.Log()})
	for n := range 3 {
		requests(tr, 1)
		require.Eventually(t, func() bool { return tr.failed.Load() == uint64(n+1) }, patience, time.Millisecond)
	}
	assert.Equal(t, 1, strings.Count(log.String(), "does not take spans"), log.String())
	assert.Contains(t, log.String(), "503")
	c.Answer(nil)
	requests(tr, 1)
	require.Eventually(t, func() bool { return strings.Contains(log.String(), "takes spans again") }, patience, time.Millisecond)
	assert.Zero(t, tr.pending.Load())
	assert.NotContains(t, log.String(), "secret")
}

// TestEndDoesNotWaitForTheCollector: the last upload has a deadline, and leaves nothing behind.
func TestEndDoesNotWaitForTheCollector(t *testing.T) {
	c, log := otlptest.New(t), &testkit.Text{}
	begun, cut := make(chan struct{}, 16), make(chan struct{}, 16)
	c.Answer(func(_ http.ResponseWriter, r *http.Request) bool {
		begun <- struct{}{}
		<-r.Context().Done() // the router ends it
		cut <- struct{}{}
		return false
	})
	tr, end := running(t, Config{Endpoint: c.URL, every: time.Millisecond, flush: time.Millisecond, Log: log.Log()})
	requests(tr, 1)
	<-begun
	requests(tr, 3)
	end()
	<-cut
	assert.Contains(t, log.String(), "last spans")
	requests(tr, 3) // nobody takes them, and nothing breaks
}

// TestEndFlushes: the spans that are there at the end are uploaded, though the next upload is far away.
func TestEndFlushes(t *testing.T) {
	c := otlptest.New(t)
	tr, end := running(t, Config{Endpoint: c.URL, every: time.Hour})
	requests(tr, 3)
	end()
	c.Await(t, patience, func(s []otlptest.Span) bool { return len(s) == 3 })
}

// TestTextsOfClients: a client's texts are bounded in a span, which holds them while it waits, and are
// UTF-8: a collector gets nothing of a batch with other bytes.
func TestTextsOfClients(t *testing.T) {
	c := otlptest.New(t)
	tr, end := running(t, Config{Endpoint: c.URL, every: time.Hour})
	head := &fasthttp.RequestHeader{}
	head.SetMethod(strings.Repeat("M", 1<<14))
	for _, text := range []string{"\xff", strings.Repeat("é", 1<<20), "é" + strings.Repeat("x", 254) + "é"} {
		r := tr.Begin(head, "/"+text, time.Now())
		r.Step(StepQueue, time.Now(), errors.New(text))
		r.End(404, []byte(text), text)
	}
	requests(tr, 1)
	end()
	for _, span := range c.Await(t, patience, func(s []otlptest.Span) bool { return len(s) == 7 }) {
		require.LessOrEqual(t, len(span.Name), 3*maxText)
		for name, value := range span.Attributes {
			require.LessOrEqual(t, len(value), 3*maxText, name)
		}
	}
}

// TestEnvironment: keys for the collector, the sampler and the names of the process are the usual variables.
func TestEnvironment(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%20b, other = c")
	t.Setenv("OTEL_SERVICE_NAME", "front")
	c := otlptest.New(t)
	tr, end := running(t, Config{Endpoint: c.URL + "/"})
	requests(tr, 1)
	end()
	assert.Equal(t, "front", c.Await(t, patience, func(s []otlptest.Span) bool { return len(s) == 1 })[0].Service)
	header := <-c.Headers
	assert.Equal(t, []string{"a b", "c"}, []string{header.Get("api-key"), header.Get("other")})

	t.Setenv("OTEL_TRACES_SAMPLER", "always_off")
	tr, end = running(t, Config{Endpoint: c.URL})
	requests(tr, 1)
	assert.Zero(t, tr.pending.Load())
	end()

	for name, value := range map[string]string{"OTEL_SDK_DISABLED": "true", "OTEL_TRACES_EXPORTER": "none"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, value)
			off, err := New(Config{Endpoint: c.URL})
			require.NoError(t, err)
			assert.Nil(t, off)
		})
	}
}

// TestMistakesAreLogged: the SDK prints mistakes in the environment by default, which is no line of a JSON log.
func TestMistakesAreLogged(t *testing.T) {
	t.Setenv("OTEL_TRACES_SAMPLER", "often")
	log := &testkit.Text{}
	running(t, Config{Endpoint: "http://127.0.0.1:1", Log: log.Log()})
	assert.Contains(t, log.String(), "often")
}

func TestEndpoints(t *testing.T) {
	for endpoint, want := range map[string]string{
		"http://c:4318": "http://c:4318/v1/traces", "https://c/": "https://c/v1/traces", "http://c/otlp": "http://c/otlp/v1/traces",
		"http://c:4318/v1/traces": "http://c:4318/v1/traces",
	} {
		u, err := newUploader(endpoint)
		require.NoError(t, err)
		assert.Equal(t, want, u.url)
		u.close()
	}
	for _, endpoint := range []string{"c:4318", "grpc://c:4317", "http://", "://", "http://c?x=1", "c"} {
		_, err := New(Config{Endpoint: endpoint})
		require.ErrorIs(t, err, ErrEndpoint, endpoint)
		require.ErrorContains(t, err, "--otlp-endpoint")
		require.ErrorIs(t, CheckEndpoint(endpoint), ErrEndpoint)
	}
	for _, endpoint := range []string{"grpc://u:secret@c:4317", "http://u:sec/secret@c:4318", "http://u:sec@secret@c:bad", "http://u:%zzsecret@c"} {
		err := CheckEndpoint(endpoint)
		require.ErrorIs(t, err, ErrEndpoint)
		assert.NotContains(t, err.Error(), "sec")
	}
	require.NoError(t, CheckEndpoint(""))
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
	_, err := New(Config{Endpoint: "http://c:4317"})
	require.ErrorContains(t, err, "4318")
}

// TestClientsParents: one valid parent is taken, all others begin a new trace.
func TestClientsParents(t *testing.T) {
	c := otlptest.New(t)
	tr, _ := running(t, Config{Endpoint: c.URL})
	const id, span = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	const parent = "00-" + id + "-" + span + "-01"
	for _, tt := range []struct {
		parents, states []string
		taken           bool
		state           string
	}{
		{[]string{parent}, nil, true, ""},
		{[]string{parent}, []string{"a=1"}, true, "a=1"},
		{[]string{parent}, []string{"a=1", "b=2"}, true, "a=1,b=2"},
		{nil, []string{"a=1"}, false, ""},
		{[]string{parent, parent}, []string{"a=1"}, false, ""},
		{[]string{"00-" + strings.Repeat("0", 32) + "-" + span + "-01"}, nil, false, ""},
		{[]string{"ff-" + id + "-" + span + "-01"}, nil, false, ""},
		{[]string{"nonsense"}, nil, false, ""},
	} {
		head := &fasthttp.RequestHeader{}
		for _, p := range tt.parents {
			head.Add("traceparent", p)
		}
		for _, s := range tt.states {
			head.Add("tracestate", s)
		}
		r := tr.Begin(head, "/x", time.Now())
		gotParent, gotState := r.Attempt(StepFirstByte, "w").Parent()
		assert.Equal(t, tt.taken, strings.Contains(string(gotParent), id), "%+v: %s", tt, gotParent)
		assert.NotContains(t, string(gotParent), span)
		assert.Equal(t, tt.state, string(gotState), "%+v", tt)
	}
}

// TestNilDoesNothing: tracing that is off needs no case of its own.
func TestNilDoesNothing(t *testing.T) {
	var tr *Tracer
	r := tr.Begin(nil, "", time.Time{})
	require.Nil(t, r)
	r.Step(StepQueue, r.Now(), errors.New("x"))
	a := r.Attempt(StepFirstByte, "w")
	parent, state := a.Parent()
	assert.Nil(t, parent)
	assert.Nil(t, state)
	a.Answered(200)
	a.Failed(nil)
	r.End(200, nil, "")
}
