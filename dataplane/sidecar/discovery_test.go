package sidecar

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

// ledger is a registry that records its workers.
type ledger map[string]bool

func (l ledger) AddSpec(spec worker.Spec) (*worker.Worker, error) {
	if l[spec.URL] {
		return nil, worker.ErrDuplicate
	}
	l[spec.URL] = true
	return &worker.Worker{URL: spec.URL}, nil
}

func (l ledger) Remove(url string) error {
	if !l[url] {
		return worker.ErrUnknown
	}
	delete(l, url)
	return nil
}

// newTestDiscovery scans the given ports only: this machine may have others.
func newTestDiscovery(t *testing.T, cfg Config, ports ...string) (*discovery, ledger) {
	t.Helper()
	cfg.Ports = nil
	for _, p := range ports {
		n, err := strconv.ParseUint(p, 10, 16)
		require.NoError(t, err)
		cfg.Ports = append(cfg.Ports, [2]uint16{uint16(n), uint16(n)})
	}
	if len(ports) == 0 {
		cfg.Ports = Ports{{1, 1}}
	}
	cfg.Log = slog.New(slog.DiscardHandler)
	require.NoError(t, cfg.setDefaults())
	registry := ledger{}
	f, err := newDiscovery(&cfg, registry)
	require.NoError(t, err)
	f.start()
	f.self = 0 // the servers of these tests are in this process
	f.wait = time.Minute
	return f, registry
}

// serve answers GET /server_info with body, and counts all requests.
func serve(t *testing.T, status int, body string, header ...string) (base, port string, asked *atomic.Int64) {
	t.Helper()
	asked = new(atomic.Int64)
	base, port = serveWith(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.URL.Path != "/server_info" {
			http.NotFound(w, r)
			return
		}
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	})
	return base, port, asked
}

// serveWith runs a server until the test ends.
func serveWith(t *testing.T, f http.HandlerFunc) (base, port string) {
	t.Helper()
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	_, port, err := net.SplitHostPort(s.Listener.Addr().String())
	require.NoError(t, err)
	return s.URL, port
}

// answerAsSGLang answers as a ready worker does.
func answerAsSGLang(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/ready":
	case "/server_info":
		fmt.Fprint(w, sglang)
	default:
		http.NotFound(w, r)
	}
}

const sglang = `{"version":"0.5.23","model_path":"m","served_model_name":"m","page_size":16,"tp_size":2,"disaggregation_mode":"null"}`

func TestDiscoversWorkersOnly(t *testing.T) {
	base, port, asked := serve(t, 200, sglang)
	_, web, webAsked := serve(t, 200, `{"hello":"world"}`)
	_, router, _ := serve(t, 200, sglang, "X-Warmpath-Worker", "http://elsewhere:30000")
	_, mapped, _ := serve(t, 200, `{"version":"0.5.23","model_path":"m","page_size":16,"port":1}`)
	_, broken, brokenAsked := serve(t, 500, `no`)
	greeter, err := net.Listen("tcp", "127.0.0.1:0") // speaks first, as ZMQ and SSH do
	require.NoError(t, err)
	defer greeter.Close()
	greeted := make(chan struct{})
	go func() {
		defer close(greeted)
		for {
			c, err := greeter.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("\xff\x00\x00\x00\x00\x00\x00\x00\x01\x7f"))
			defer c.Close()
		}
	}()
	_, greets, _ := net.SplitHostPort(greeter.Addr().String())

	f, registry := newTestDiscovery(t, Config{}, port, web, router, mapped, broken, greets)
	now := time.Now()
	for i := range 5 {
		f.scan(t.Context(), now.Add(time.Duration(i)*time.Second))
	}
	found, report, done := f.view()
	require.True(t, done)
	require.Len(t, found, 1)
	assert.Equal(t, base, found[0].URL)
	assert.Equal(t, base, found[0].Public)
	assert.Equal(t, "127.0.0.1:"+port, found[0].Listen.String())
	assert.Positive(t, found[0].PID)
	assert.Equal(t, 2, found[0].Info.TPSize)
	assert.Equal(t, ledger{base: true}, registry)
	assert.EqualValues(t, 1, asked.Load(), "a worker is asked once")
	assert.EqualValues(t, 1, webAsked.Load(), "who is no worker is asked once")
	assert.EqualValues(t, 1, brokenAsked.Load(), "who is not ready is asked again later")
	f.scan(t.Context(), now.Add(firstPause+time.Minute))
	assert.EqualValues(t, 1, webAsked.Load())
	assert.EqualValues(t, 2, brokenAsked.Load())
	require.Len(t, report.NotWorkers, 5)
	why := map[string]string{}
	for _, n := range report.NotWorkers {
		_, p, _ := net.SplitHostPort(n.Addr)
		why[p] = n.Reason
	}
	assert.Contains(t, why[web], "something else")
	assert.Contains(t, why[router], "router")
	assert.Contains(t, why[mapped], "port 1")
	assert.Contains(t, why[broken], "500")
	assert.Contains(t, why[greets], "does not speak HTTP")
	greeter.Close()
	<-greeted
}

// TestForgetsWorkers: a worker without socket stays for goneGrace, a named one for good.
func TestForgetsWorkers(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, sglang) }))
	_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	named, namedPort, asked := serve(t, 200, sglang)
	f, registry := newTestDiscovery(t, Config{Workers: []string{named, "http://127.0.0.1:9"}}, port, namedPort)
	now := time.Now()
	f.scan(t.Context(), now)
	require.Len(t, registry, 3)
	assert.Zero(t, asked.Load(), "who was named is not asked by the finder")
	found, _, _ := f.view()
	for _, w := range found {
		assert.Equal(t, w.URL == named || w.URL == s.URL, w.PID != 0, "%+v", w)
		assert.Equal(t, w.URL != s.URL, w.Named)
	}
	s.Close()
	f.scan(t.Context(), now.Add(goneGrace-time.Second))
	assert.Len(t, registry, 3)
	f.scan(t.Context(), now.Add(goneGrace+time.Second))
	assert.Equal(t, ledger{named: true, "http://127.0.0.1:9": true}, registry)
}

func TestNoFind(t *testing.T) {
	_, port, asked := serve(t, 200, sglang)
	f, registry := newTestDiscovery(t, Config{NoDiscovery: true}, port)
	f.scan(t.Context(), time.Now())
	assert.Empty(t, registry)
	assert.Zero(t, asked.Load())
}

// TestSilentListener: a silent socket is asked maxAsks times, with growing pauses.
func TestSilentListener(t *testing.T) {
	proc := fakeProc(t, nil).proc
	require.NoError(t, os.Mkdir(filepath.Join(proc, "net"), 0o755))
	table := heading + line(netip.MustParseAddrPort("127.0.0.1:30000"), "0A", 7)
	require.NoError(t, os.WriteFile(filepath.Join(proc, "net", "tcp"), []byte(table), 0o600))
	calls := 0
	f, _ := newTestDiscovery(t, Config{Proc: proc, Probing: ProbeConfig{Dial: func(context.Context, string, string) (net.Conn, error) {
		calls++
		return nil, &net.OpError{Op: "dial", Err: errors.New("silence")}
	}}}, "30000")
	now := time.Now()
	for i := range 3600 {
		f.scan(t.Context(), now.Add(time.Duration(i)*time.Second))
	}
	assert.Equal(t, maxAsks, calls)
}

func TestExcluded(t *testing.T) {
	f := &discovery{self: 42}
	for command, want := range map[string]bool{
		"python -m sglang.launch_server --port 30000": false, "sglang::scheduler_TP0": true, "sglang::detokenizer": true,
		"python -m sglang_router.launch_router": true, "/opt/sglang-router --port 1": true, "nginx": false,
	} {
		assert.Equal(t, want, f.excluded(1, command) != "", command)
	}
	assert.Equal(t, "this process", f.excluded(42, "warmpath node"))
}

func TestPublic(t *testing.T) {
	all, local := netip.MustParseAddrPort("0.0.0.0:30000"), netip.MustParseAddrPort("127.0.0.1:30000")
	tests := []struct {
		url, advertise string
		listen         netip.AddrPort
		want           string
	}{
		{"http://127.0.0.1:30000", "127.0.0.1", local, "http://127.0.0.1:30000"},
		{"http://127.0.0.1:30000", "10.0.0.5", all, "http://10.0.0.5:30000"},
		{"https://localhost", "gpu1", all, "https://gpu1:443"},
		{"http://[::1]:30000", "fd00::5", netip.MustParseAddrPort("[::]:30000"), "http://[fd00::5]:30000"},
		{"http://127.0.0.1:30000", "10.0.0.5", local, ""},
		{"http://127.0.0.1:30000", "10.0.0.5", netip.AddrPort{}, "http://10.0.0.5:30000"},
		{"http://10.0.0.7:30000", "10.0.0.5", netip.MustParseAddrPort("10.0.0.7:30000"), "http://10.0.0.7:30000"},
		{"http://gpu1:30000", "10.0.0.5", all, "http://gpu1:30000"},
	}
	for _, tt := range tests {
		got, why := (&Config{Advertise: tt.advertise}).public(&LocalWorker{URL: tt.url, Listen: tt.listen})
		assert.Equal(t, tt.want, got, "%+v", tt)
		assert.Equal(t, tt.want == "", why != "")
	}
	assert.Equal(t, "127.0.0.1", AdvertiseTo("127.0.0.1:4222"))
	assert.Equal(t, "localhost", AdvertiseTo("localhost:4222"))
	assert.NotEmpty(t, AdvertiseTo("192.0.2.1:4222"))
}

func TestIsAt(t *testing.T) {
	at := func(addr string) listenSocket { return listenSocket{addr: netip.MustParseAddrPort(addr)} }
	assert.True(t, leadsTo("http://localhost:30000", at("127.0.0.1:30000")))
	assert.True(t, leadsTo("http://127.0.0.1:30000", at("0.0.0.0:30000")))
	assert.True(t, leadsTo("http://10.9.8.7:30000", at("10.9.8.7:30000")))
	assert.True(t, leadsTo("http://localhost", at("127.0.0.1:80")))
	assert.False(t, leadsTo("http://192.0.2.1:30000", at("0.0.0.0:30000")), "of another machine")
	assert.False(t, leadsTo("http://127.0.0.1:30001", at("0.0.0.0:30000")))
	assert.False(t, leadsTo("http://127.0.0.1:30000", at("10.0.0.1:30000")))
}
