//go:build cgo && linux && soak

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/cluster/natstest"
	"github.com/warmpath/warmpath/dataplane/sidecar"
	"github.com/warmpath/warmpath/dataplane/testkit"
	"github.com/warmpath/warmpath/nvml"
	"github.com/warmpath/warmpath/nvml/nvmltest"
)

// seen returns the time of the last request that worker answered, and the number of answers of
// other workers.
func (f *traffic) seen(worker string) (last time.Time, others int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, n := range f.count {
		if name != worker {
			others += n
		}
	}
	return f.last[worker], others
}

// gpuSite is processes: NATS, three tensor-parallel workers on six of eight GPUs, a sidecar that
// discovers them, and a router.
type gpuSite struct {
	t       *testing.T
	driver  *nvmltest.Driver
	workers []string // URLs
	front   string
	node    string
	clients *traffic
}

func startGPUSite(t *testing.T) *gpuSite {
	t.Helper()
	driver, err := nvmltest.Build(t.TempDir())
	if errors.Is(err, nvmltest.ErrNoCompiler) {
		t.Skip(err)
	}
	require.NoError(t, err)
	t.Setenv(nvml.EnvLibrary, driver.Library)
	state := nvmltest.HGX()
	nats := natstest.Start(t)
	addrs := freePorts(t, 5)
	s := &gpuSite{t: t, driver: driver, front: addrs[3], node: addrs[4]}
	var ports []string
	for i, addr := range addrs[:3] {
		sim := newProcess(t, "sim", "--listen", addr, "--tp-size", "2", "--time-scale", "2")
		state.GPUs[2*i].Processes[0], state.GPUs[2*i+1].Processes[0] = uint64(sim.cmd.Process.Pid), uint64(sim.cmd.Process.Pid)
		_, port, err := net.SplitHostPort(addr)
		require.NoError(t, err)
		s.workers, ports = append(s.workers, "http://"+addr), append(ports, port)
	}
	require.NoError(t, driver.Set(state))
	args := []string{"node", "--cluster", nats.URL(), "--listen", s.node, "--name", "gpu1", "--find-ports", strings.Join(ports, ",")}
	if hold := os.Getenv("WARMPATH_HEALTH_HOLD"); hold != "default" {
		args = append(args, "--health-hold", "500ms")
	}
	newProcess(t, args...)
	newProcess(t, serveArgs("--cluster", nats.URL(), "--listen", s.front)...)
	for _, w := range s.workers {
		s.await(w, "healthy", "")
	}
	s.clients = &traffic{addr: s.front}
	t.Cleanup(s.clients.start(6, 0))
	return s
}

// await waits until the router's metrics and explanation say this of a worker.
func (s *gpuSite) await(url, state, excluded string) {
	s.t.Helper()
	want := fmt.Sprintf("warmpath_worker_health{state=%q,worker=%q} 1\n", state, url)
	var last string
	testkit.AwaitThat(s.t, func() bool {
		if last = fetch(http.MethodGet, "http://"+s.front+"/metrics", ""); !strings.Contains(last, want) {
			return false
		}
		last = fetch(http.MethodPost, "http://"+s.front+"/explain", `{"text":"where to","sampling_params":{}}`)
		var said struct {
			Ranks []struct{ ID, Excluded string }
		}
		if json.Unmarshal([]byte(last), &said) != nil {
			return false
		}
		for _, r := range said.Ranks {
			if r.ID == url {
				return (excluded == "") == (r.Excluded == "") && strings.Contains(r.Excluded, excluded)
			}
		}
		return false
	}, func() string { return want + last })
}

// lose breaks a GPU and returns the time until its worker gets no more requests, and until the
// router gives the reason.
func (s *gpuSite) lose(worker, state, excluded string, fault func()) (traffic, told time.Duration) {
	s.t.Helper()
	begin := time.Now()
	fault()
	s.await(worker, state, excluded)
	told = time.Since(begin)
	// The others answer many more; the worker answers earlier requests only.
	_, before := s.clients.seen(worker)
	testkit.AwaitThat(s.t, func() bool { _, now := s.clients.seen(worker); return now >= before+30 }, func() string { return "the others answer nothing" })
	last, _ := s.clients.seen(worker)
	assert.False(s.t, last.After(begin.Add(told)), "%s gets requests on", worker)
	return max(last.Sub(begin), 0), told
}

// regain repairs a GPU and returns the time until its worker gets requests.
func (s *gpuSite) regain(worker string, repair func()) time.Duration {
	s.t.Helper()
	begin := time.Now()
	repair()
	s.await(worker, "healthy", "")
	var last time.Time
	testkit.AwaitThat(s.t, func() bool { last, _ = s.clients.seen(worker); return last.After(begin) }, func() string { return worker + " gets no requests" })
	return last.Sub(begin)
}

// TestBrokenGPUsLoseTheirTraffic breaks GPUs below a real sidecar's driver and watches the
// requests of a real router. The times are in the log, and with WARMPATH_RESULTS in a file there;
// WARMPATH_HEALTH_HOLD=default waits for recovery as operators do.
func TestBrokenGPUsLoseTheirTraffic(t *testing.T) {
	s := startGPUSite(t)
	update := func(gpu int, change func(*nvmltest.GPU)) func() {
		return func() { assert.NoError(t, s.driver.Update(func(st *nvmltest.State) { change(&st.GPUs[gpu]) })) }
	}
	for _, w := range s.workers {
		testkit.AwaitThat(t, func() bool { last, _ := s.clients.seen(w); return !last.IsZero() }, func() string { return w + " gets no requests" })
	}
	var status struct{ Workers []sidecar.WorkerReport }
	require.NoError(t, json.Unmarshal([]byte(fetch(http.MethodGet, "http://"+s.node+"/status", "")), &status))
	require.Len(t, status.Workers, 3, "found by themselves")
	tests := []struct {
		name, state, excluded string
		worker                int
		fault, repair         func()
	}{
		{"NVLink down", "degraded", "17 of 18 NVLinks up", 0, update(0, func(g *nvmltest.GPU) { g.Links[7].Up = 0 }), update(0, func(g *nvmltest.GPU) { g.Links[7].Up = 1 })},
		{"XID 79", "dead", "dead", 1, func() { assert.NoError(t, s.driver.XID(3, 79)) }, func() { assert.NoError(t, s.driver.Reload()) }},
		{"GPU lost", "dead", "dead", 2, update(5, func(g *nvmltest.GPU) { g.Lost = 1 }), update(5, func(g *nvmltest.GPU) { g.Lost = 0 })},
	}
	var report strings.Builder
	report.WriteString("fault, last request to the worker after s, /metrics and /explain tell after s, requests again after s\n")
	for _, tt := range tests {
		traffic, told := s.lose(s.workers[tt.worker], tt.state, tt.excluded, tt.fault)
		back := s.regain(s.workers[tt.worker], tt.repair)
		fmt.Fprintf(&report, "%s, %.3f, %.3f, %.3f\n", tt.name, traffic.Seconds(), told.Seconds(), back.Seconds())
	}
	t.Log(report.String())
	assert.Zero(t, s.clients.failures(), s.clients.first)
	if dir := os.Getenv("WARMPATH_RESULTS"); dir != "" {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "gpu-faults.csv"), []byte(report.String()), 0o644)) //nolint:gosec // a result is for everyone
	}
}
