//go:build cgo && linux

package sidecar

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/cluster"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/sidecar/health"
	"github.com/warmpath/warmpath/nvml"
	"github.com/warmpath/warmpath/nvml/nvmltest"
)

// patience bounds the waits of tests, on a busy machine too.
const patience = 2 * time.Minute

// memory is a cluster that records its calls.
type memory struct {
	mu        sync.Mutex
	records   []cluster.Node
	withdrawn bool
}

func (m *memory) AnnounceNode(n cluster.Node) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.records = append(m.records, n)
	return nil
}

func (m *memory) Withdraw() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.withdrawn = true
}

func (m *memory) View() *cluster.View { return &cluster.View{Up: true} }

func (m *memory) last() cluster.Node {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.records) == 0 {
		return cluster.Node{}
	}
	return m.records[len(m.records)-1]
}

// await waits for a record.
func (m *memory) await(t *testing.T, what string, holds func(*cluster.Node) bool) cluster.Node {
	t.Helper()
	require.Eventually(t, func() bool { n := m.last(); return holds(&n) }, patience, 2*time.Millisecond, what)
	return m.last()
}

// fakeDriver returns the driver of a machine with eight GPUs.
func fakeDriver(t *testing.T) *nvmltest.Driver {
	t.Helper()
	d, err := nvmltest.Build(t.TempDir())
	if errors.Is(err, nvmltest.ErrNoCompiler) {
		t.Skip(err)
	}
	require.NoError(t, err)
	require.NoError(t, d.Set(nvmltest.HGX()))
	return d
}

// startNode runs the sidecar of this process's own servers until the test ends.
func startNode(t *testing.T, cfg Config) *Sidecar {
	t.Helper()
	cfg.Name, cfg.Listen, cfg.Log = "gpu1", cmp.Or(cfg.Listen, "127.0.0.1:0"), slog.New(slog.DiscardHandler)
	cfg.NVML.Every, cfg.Probing.Every, cfg.DiscoverEvery = 50*time.Millisecond, 20*time.Millisecond, 50*time.Millisecond
	cfg.Health = health.Config{Rise: time.Nanosecond, Fall: time.Nanosecond, Stale: time.Hour}
	n, err := New(cfg)
	require.NoError(t, err)
	n.discovery.self, n.discovery.wait = 0, patience // the servers of these tests are in this process
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
		http.DefaultClient.CloseIdleConnections()
	})
	return n
}

func get(t *testing.T, n *Sidecar, path string) (int, string) {
	t.Helper()
	resp, err := http.Get("http://" + n.Addr() + path)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(body)
}

// TestNodeTellsOfItsGPUs breaks a GPU below the driver's binding and finds it in the records for
// the cluster.
func TestNodeTellsOfItsGPUs(t *testing.T) {
	driver := fakeDriver(t)
	base, port := serveWith(t, answerAsSGLang)
	require.NoError(t, driver.Update(func(s *nvmltest.State) {
		s.GPUs[2].Processes[0], s.GPUs[3].Processes[0] = uint64(os.Getpid()), uint64(os.Getpid())
	}))
	shared := &memory{}
	ports, err := ParsePorts(port)
	require.NoError(t, err)
	n := startNode(t, Config{Ports: ports, Cluster: shared, NVML: nvml.Config{Library: driver.Library}})
	update := func(change func(*nvmltest.GPU)) {
		require.NoError(t, driver.Update(func(s *nvmltest.State) { change(&s.GPUs[3]) }))
	}
	is := func(state string, noTP bool) func(*cluster.Node) bool {
		return func(n *cluster.Node) bool {
			return len(n.Workers) == 1 && n.Workers[0].Health.State == state && n.Workers[0].Health.NoTP == noTP
		}
	}
	record := shared.await(t, "a worker on its GPUs", func(n *cluster.Node) bool {
		return len(n.Workers) == 1 && len(n.Workers[0].GPUs) == 2 && n.Workers[0].Health.State == "healthy" && n.Workers[0].Model == "m"
	})
	assert.Equal(t, "gpu1", record.Name)
	assert.Equal(t, "http://"+n.Addr(), record.Control)
	assert.Len(t, record.GPUs, 8)
	w := record.Workers[0]
	assert.Equal(t, cluster.Worker{
		URL: base, Role: "regular", Model: "m", PID: os.Getpid(), TP: 2, DP: 1, GPUs: []string{record.GPUs[2].UUID, record.GPUs[3].UUID},
		Health: cluster.Health{State: "healthy", Weight: 1, Free: 5 << 30},
	}, w)

	update(func(g *nvmltest.GPU) { g.Links[7].Up = 0 })
	record = shared.await(t, "NVLink down", is("degraded", true))
	assert.Equal(t, []string{"GPU 3: 17 of 18 NVLinks up"}, record.Workers[0].Health.Reasons)
	assert.Equal(t, 17, record.GPUs[3].LinksUp)
	update(func(g *nvmltest.GPU) { g.Links[7].Up = 1 })
	shared.await(t, "NVLink up", is("healthy", false))

	update(func(g *nvmltest.GPU) { g.Throttle, g.Clock = 0x40, 600 })
	record = shared.await(t, "hot", is("degraded", false))
	assert.InDelta(t, 0.3, record.Workers[0].Health.Weight, 1e-9)
	update(func(g *nvmltest.GPU) { g.Throttle, g.Clock = 0, 1830 })
	shared.await(t, "cool", is("healthy", false))

	require.NoError(t, driver.XID(3, 79))
	shared.await(t, "XID 79", is("dead", true))
	assert.Equal(t, map[int]int{79: 1}, n.Report().GPUs[3].XIDs)
	require.NoError(t, driver.Reload())
	shared.await(t, "driver reloaded", is("healthy", false))
	update(func(g *nvmltest.GPU) { g.Lost = 1 })
	shared.await(t, "lost", is("dead", true))
	update(func(g *nvmltest.GPU) { g.Lost = 0 })
	shared.await(t, "found", is("healthy", false))
	assert.False(t, shared.withdrawn)
}

// TestNodeServes reads the HTTP API.
func TestNodeServes(t *testing.T) {
	driver := fakeDriver(t)
	base, port := serveWith(t, answerAsSGLang)
	ports, err := ParsePorts(port)
	require.NoError(t, err)
	n := startNode(t, Config{Ports: ports, NVML: nvml.Config{Library: driver.Library}})
	require.Eventually(t, func() bool { return n.Report().Driver.Events }, patience, time.Millisecond)
	require.NoError(t, driver.XID(5, 31))
	require.Eventually(t, func() bool {
		r := n.Report()
		return r.Ready() && len(r.Workers) == 1 && r.Workers[0].State == "ready" && len(r.GPUs) == 8 && len(r.GPUs[5].XIDs) == 1
	}, patience, time.Millisecond)
	status, body := get(t, n, "/ready")
	assert.Equal(t, 200, status, body)
	status, _ = get(t, n, "/health")
	assert.Equal(t, 200, status)
	status, _ = get(t, n, "/nothing")
	assert.Equal(t, 404, status)
	resp, err := http.Post("http://"+n.Addr()+"/status", "text/plain", strings.NewReader("x"))
	require.NoError(t, err)
	resp.Body.Close()
	assert.Equal(t, 405, resp.StatusCode)

	status, body = get(t, n, "/status")
	require.Equal(t, 200, status)
	var r struct {
		Cluster ClusterReport
		Workers []WorkerReport
		GPUs    []struct{ Facts struct{ Links []any } }
	}
	require.NoError(t, json.Unmarshal([]byte(body), &r))
	assert.Equal(t, "none", r.Cluster.State)
	assert.Equal(t, base, r.Workers[0].URL)
	assert.Len(t, r.GPUs[0].Facts.Links, 18)

	status, body = get(t, n, "/metrics")
	require.Equal(t, 200, status)
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(body))
	require.NoError(t, err)
	for name, want := range map[string]float64{
		"DCGM_FI_DEV_GPU_TEMP": 61, "DCGM_FI_DEV_FB_USED": 74 << 10, "DCGM_FI_DEV_FB_FREE": 5 << 10, "DCGM_FI_DEV_POWER_USAGE": 560,
		"DCGM_FI_DEV_MEM_CLOCK": 2619, "DCGM_FI_DEV_GPU_UTIL": 87, "DCGM_FI_DEV_XID_ERRORS": 31, "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL": 0,
		"warmpath_node_gpu_nvlinks_up": 18, "warmpath_node_gpu_weight": 1,
	} {
		f := families[name]
		if !assert.NotNil(t, f, name) {
			continue
		}
		require.Len(t, f.GetMetric(), 8, name)
		m := f.GetMetric()[5]
		labels := map[string]string{}
		for _, l := range m.GetLabel() {
			labels[l.GetName()] = l.GetValue()
		}
		assert.Equal(t, map[string]string{
			"gpu": "5", "UUID": "GPU-00000005-86f3-7a43-b711-4771313afc50", "pci_bus_id": "00000000:6D:00.0", "device": "nvidia5",
			"modelName": "NVIDIA H100 80GB HBM3", "Hostname": "gpu1",
		}, labels, name)
		assert.InDelta(t, want, m.GetGauge().GetValue()+m.GetCounter().GetValue(), 0, name)
	}
	for name := range families {
		if strings.HasPrefix(name, "DCGM_") {
			assert.False(t, strings.HasPrefix(name, "DCGM_FI_PROF_"), "%s is measured by the hardware's profiler, not by NVML", name)
		}
	}
	assert.NotNil(t, families["warmpath_node_worker_ready"])
}

// TestNodeWithoutDriver runs a sidecar without GPUs.
func TestNodeWithoutDriver(t *testing.T) {
	base, _ := serveWith(t, answerAsSGLang)
	shared := &memory{}
	n := startNode(t, Config{Workers: []string{base}, NoDiscovery: true, Cluster: shared, NVML: nvml.Config{Library: "/nonexistent/libnvidia-ml.so.1"}})
	record := shared.await(t, "a worker", func(n *cluster.Node) bool { return len(n.Workers) == 1 && n.Workers[0].Model == "m" })
	assert.Empty(t, record.GPUs)
	assert.Equal(t, "no driver", record.Driver)
	assert.Equal(t, cluster.Health{State: "unknown"}, record.Workers[0].Health)
	require.Eventually(t, func() bool { status, _ := get(t, n, "/ready"); return status == 200 }, patience, time.Millisecond)
}

// TestSource reads the workers as a router of the same process does.
func TestSource(t *testing.T) {
	driver := fakeDriver(t)
	base, port := serveWith(t, answerAsSGLang)
	ports, err := ParsePorts(port)
	require.NoError(t, err)
	require.NoError(t, driver.Update(func(s *nvmltest.State) { s.GPUs[0].Processes[0], s.GPUs[0].Lost = uint64(os.Getpid()), 0 }))
	n := startNode(t, Config{Ports: ports, NVML: nvml.Config{Library: driver.Library}})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	sets, told := make(chan []worker.Spec, 100), make(chan string, 1000)
	var running sync.WaitGroup
	running.Go(func() { assert.NoError(t, n.Source().Run(ctx, func(s []worker.Spec) { sets <- s })) })
	refused := false
	running.Go(func() {
		n.Source().Health(ctx, func(url string, h cluster.Health) bool {
			if !refused {
				refused = true
				return false
			}
			told <- url + " " + h.State
			return true
		})
	})
	for specs := range sets {
		if len(specs) == 1 {
			assert.Equal(t, base, specs[0].URL)
			break
		}
	}
	assert.Equal(t, base+" healthy", <-told, "told again after it was refused")
	require.NoError(t, driver.XID(0, 79))
	for text := range told {
		if text == base+" dead" {
			break
		}
	}
	stop()
	running.Wait()
}

// TestNodeRefusesWebPages: a page in a browser on the machine reads nothing and gives no hint.
func TestNodeRefusesWebPages(t *testing.T) {
	driver := fakeDriver(t)
	n := startNode(t, Config{NVML: nvml.Config{Library: driver.Library}, NoDiscovery: true, Hosts: []string{"node.example"}, extra: extra{handle: func(ctx *fasthttp.RequestCtx) bool {
		return string(ctx.Path()) == "/prefetch"
	}}})
	for _, tt := range []struct {
		method, header, value string
		want                  int
	}{
		{"POST", "X-None", "", 200},
		{"POST", "Content-Type", "application/json", 200},
		{"POST", "Content-Type", "text/plain", 415},
		{"POST", "Origin", "http://evil.example", 403},
		{"POST", "Sec-Fetch-Site", "cross-site", 403},
		{"POST", "Host", "evil.example", 403},
		{"GET", "Host", "evil.example", 403},
		{"POST", "Host", "node.example", 200},
	} {
		req, err := http.NewRequestWithContext(t.Context(), tt.method, "http://"+n.Addr()+"/prefetch", strings.NewReader("{}"))
		require.NoError(t, err)
		req.Header.Set(tt.header, tt.value)
		if tt.header == "Host" {
			req.Host = tt.value
		}
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		resp.Body.Close()
		assert.Equal(t, tt.want, resp.StatusCode, tt)
	}
}

// TestProfilesAreForOperators: with the key where there is one, without on loopback only, and never for web pages.
func TestProfilesAreForOperators(t *testing.T) {
	driver := fakeDriver(t)
	for name, tt := range map[string]struct {
		listen, key, given string
		want               int
	}{
		"loopback":                 {"127.0.0.1:0", "", "", 200},
		"loopback without the key": {"127.0.0.1:0", "secret", "", 401},
		"loopback, the key":        {"127.0.0.1:0", "secret", "Bearer secret", 200},
		"everywhere":               {"0.0.0.0:0", "", "", 403},
		"everywhere, any key":      {"0.0.0.0:0", "", "Bearer ", 403},
		"everywhere without":       {"0.0.0.0:0", "secret", "", 401},
		"everywhere, a wrong key":  {"0.0.0.0:0", "secret", "Bearer wrong", 401},
		"everywhere, no bearer":    {"0.0.0.0:0", "secret", "secret", 401},
		"everywhere, the key":      {"0.0.0.0:0", "secret", "Bearer secret", 200},
	} {
		t.Run(name, func(t *testing.T) {
			n := startNode(t, Config{Listen: tt.listen, Key: tt.key, NVML: nvml.Config{Library: driver.Library}, NoDiscovery: true})
			_, port, err := net.SplitHostPort(n.Addr())
			require.NoError(t, err)
			ask := func(path string, header ...string) (*http.Response, string) {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:"+port+path, http.NoBody)
				require.NoError(t, err)
				if tt.given != "" {
					req.Header.Set("Authorization", tt.given)
				}
				for i := 0; i < len(header); i += 2 {
					req.Header.Set(header[i], header[i+1])
				}
				resp, err := http.DefaultClient.Do(req)
				require.NoError(t, err)
				defer resp.Body.Close()
				body, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				return resp, string(body)
			}
			paths := []string{"heap", "goroutine?debug=1", ""}
			if name == "everywhere, the key" {
				paths = append(paths, "profile?seconds=1")
			}
			for _, path := range paths {
				resp, body := ask("/debug/pprof/" + path)
				require.Equal(t, tt.want, resp.StatusCode, "%s: %s", path, body)
				assert.Equal(t, tt.want == 401, resp.Header.Get("WWW-Authenticate") == "Bearer")
				assert.Equal(t, tt.want == 200 && (path == "heap" || path == "profile?seconds=1"), strings.HasPrefix(body, "\x1f\x8b"))
				if tt.want == 401 && tt.given != "" {
					break // a wrong key waits
				}
			}
			resp, _ := ask("/debug/pprof/heap", "Origin", "http://evil.example")
			assert.Equal(t, 403, resp.StatusCode)
			if tt.want == 200 {
				resp, _ = ask("/debug/pprof/profile?seconds=61")
				assert.Equal(t, 400, resp.StatusCode)
				resp, _ = ask("/debug/pprof/cmdline")
				assert.Equal(t, 404, resp.StatusCode)
			}
			_, metrics := ask("/metrics")
			assert.Contains(t, metrics, `warmpath_operator_refused_total{reason="foreign"} 1`, "metrics need no key")
			assert.Equal(t, tt.want == 401 && tt.given != "", strings.Contains(metrics, `warmpath_operator_refused_total{reason="wrong_key"} 1`))
		})
	}
}
