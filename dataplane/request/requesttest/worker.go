package requesttest

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/cluster/natstest"
	"github.com/warmpath/warmpath/dataplane/tlsconfig/tlstest"
)

// An inference request and its answer.
const (
	IDsBody  = `{"input_ids":[1,2,3,4,5,6,7,8,9],"sampling_params":{"max_new_tokens":4}}`
	IDsReply = `{"text":"x","meta_info":{"prompt_tokens":9,"completion_tokens":4,"cached_tokens":8}}`
)

// Info is the /server_info of a worker of model "tiny" with dpSize ranks.
func Info(dpSize int) string {
	return fmt.Sprintf(`{"version":"0.5.23","served_model_name":"tiny","page_size":4,"dp_size":%d}`, dpSize)
}

// HalfInfo is Info of a worker for "prefill" or "decode", with the port of a Bootstrap.
func HalfInfo(mode string, dpSize int, port string) string {
	return strings.TrimSuffix(Info(dpSize), "}") + fmt.Sprintf(`,"disaggregation_mode":%q,"disaggregation_bootstrap_port":%s}`, mode, port)
}

// Bootstrap runs a server of bootstraps until the test ends and returns its port.
func Bootstrap(t testing.TB) (port string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	return Port(server.URL)
}

// Port returns the port at the end of a URL or an address.
func Port(url string) string { return url[strings.LastIndexByte(url, ':')+1:] }

// Worker is an HTTP server with the routes that a router needs, and those that a test sets.
type Worker struct {
	URL      string
	Aborted  chan string // bodies of /abort_request; 16 fit
	server   *http.Server
	mu       sync.Mutex
	handlers map[string]http.HandlerFunc // guarded by mu
	bodies   []string                    // of other POSTs; guarded by mu
}

// NewWorker runs a worker of one model, "tiny", until the test ends, with TLS where the test has
// it. info is its /server_info.
func NewWorker(t testing.TB, info string) *Worker {
	t.Helper()
	// A router keeps probing a worker that is gone. Its port must not be given to a listener of
	// another test, in any process.
	return NewWorkerAt(t, natstest.Address(t), info)
}

// NewWorkerAt is NewWorker at an address.
func NewWorkerAt(t testing.TB, address, info string) *Worker {
	t.Helper()
	l, err := net.Listen("tcp", address)
	require.NoError(t, err)
	w := &Worker{URL: "http://" + l.Addr().String(), handlers: map[string]http.HandlerFunc{}, Aborted: make(chan string, 16)}
	w.On("/ready", func(http.ResponseWriter, *http.Request) {})
	w.Answers("/server_info", info)
	w.Answers("/v1/models", `{"object":"list","data":[{"id":"tiny"}]}`)
	w.On("/abort_request", func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Aborted <- string(body)
	})
	w.server = &http.Server{Handler: w}
	if tlstest.Encrypted(t) {
		w.URL = "https://" + l.Addr().String()
		l = tls.NewListener(l, tlstest.Server(t))
	}
	go func() { _ = w.server.Serve(l) }()
	t.Cleanup(func() { _ = w.Close() })
	return w
}

// Close ends the worker as the end of its process does.
func (w *Worker) Close() error { return w.server.Close() }

// On sets what answers at path.
func (w *Worker) On(path string, h http.HandlerFunc) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.handlers[path] = h
}

// Answers makes path answer with a constant.
func (w *Worker) Answers(path, body string) { w.sends(path, "application/json", body) }

// Streams makes path answer with a stream of events.
func (w *Worker) Streams(path, text string) { w.sends(path, "text/event-stream; charset=utf-8", text) }

func (w *Worker) sends(path, mime, text string) {
	w.On(path, func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", mime)
		_, _ = io.WriteString(rw, text)
	})
}

// Dies makes path close the connection after write.
func (w *Worker) Dies(path string, write func(rw http.ResponseWriter)) {
	w.On(path, func(rw http.ResponseWriter, _ *http.Request) {
		write(rw)
		_ = http.NewResponseController(rw).Flush()
		panic(http.ErrAbortHandler)
	})
}

// Breaks makes path answer with the begin of a stream of events and close the connection.
func (w *Worker) Breaks(path, begin string) {
	w.Dies(path, func(rw http.ResponseWriter) {
		rw.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(rw, begin)
	})
}

// ServeHTTP implements http.Handler.
func (w *Worker) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	h := w.handlers[r.URL.Path]
	w.mu.Unlock()
	if h == nil {
		http.NotFound(rw, r)
		return
	}
	if r.Method == http.MethodPost && r.URL.Path != "/abort_request" {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		w.mu.Lock()
		w.bodies = append(w.bodies, string(body))
		w.mu.Unlock()
	}
	h(rw, r)
}

// Bodies returns the bodies of all POSTs but aborts, the oldest first.
func (w *Worker) Bodies() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.bodies)
}

// LastBody returns the last of Bodies, or "".
func (w *Worker) LastBody() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.bodies) == 0 {
		return ""
	}
	return w.bodies[len(w.bodies)-1]
}
