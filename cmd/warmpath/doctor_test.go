package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/dataplane/testkit"
	"github.com/warmpath/warmpath/nixl/nixltest"
	"github.com/warmpath/warmpath/nvml"
	"github.com/warmpath/warmpath/nvml/nvmltest"
	"github.com/warmpath/warmpath/zmq"
)

// publish runs an engine's publisher and returns its port.
func publish(t *testing.T) string {
	t.Helper()
	p, err := zmq.NewPublisher(zmq.PublisherConfig{Endpoint: "tcp://127.0.0.1:*"})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- p.Run(t.Context()) }()
	t.Cleanup(func() {
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	_, port, err := net.SplitHostPort(strings.TrimPrefix(p.Endpoint(), "tcp://"))
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// serveWorker answers as SGLang does, with the given kv_events.
func serveWorker(t *testing.T, ready int, events string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/ready":
			w.WriteHeader(ready)
		case "/server_info":
			fmt.Fprintf(w, `{"version":"0.5.23","model_path":"tiny","page_size":4,"dp_size":1,"kv_events":%s}`, events)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func runDoctor(t *testing.T, args ...string) ([]finding, error) {
	t.Helper()
	cmd := newDoctorCommand()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetArgs(append([]string{"--json", "--wait", patience.String(), "--nixl-lib", "/nonexistent/libnixl_capi.so"}, args...)) // the last one counts
	failed := cmd.ExecuteContext(t.Context())
	var found []finding
	// Cobra writes its own line for an error after the JSON, so only the first value is read.
	if err := json.NewDecoder(&out).Decode(&found); err != nil {
		t.Fatalf("cannot read doctor's JSON: %v", err)
	}
	return found, failed
}

func find(t *testing.T, found []finding, name string) finding {
	t.Helper()
	for _, f := range found {
		if f.Name == name {
			return f
		}
	}
	t.Fatalf("no finding %q in %+v", name, found)
	return finding{}
}

func TestDoctorMachine(t *testing.T) {
	found, err := runDoctor(t)
	if err != nil {
		t.Errorf("doctor without a worker = %v, want nil whatever the machine lacks", err)
	}
	if f := find(t, found, "warmpath"); f.State != stateOK {
		t.Errorf("%+v, want %s", f, stateOK)
	}
	for _, f := range found {
		if f.State != stateOK && f.Advice == "" {
			t.Errorf("%+v has no advice", f)
		}
	}
}

// TestDoctorNIXL measures between two processes, with the real library.
func TestDoctorNIXL(t *testing.T) {
	library := nixltest.Library(t)
	found, err := runDoctor(t, "--nixl-lib", library)
	if err != nil {
		t.Fatal(err)
	}
	if f := find(t, found, "NIXL"); f.State != stateOK || !strings.Contains(f.Detail, library) {
		t.Errorf("%+v, want %s at %s", f, stateOK, library)
	}
	if f := find(t, found, "NIXL path"); !strings.Contains(f.Detail, "within this machine") {
		t.Errorf("%+v, want what was measured", f)
	}
}

func TestDoctorWorker(t *testing.T) {
	kv := func(events, replay string) string {
		return `{"endpoint_host":"*","endpoint_port_base":` + events + `,"replay_endpoint_port_base":` + replay + `}`
	}
	live, dead := publish(t), "1"
	tests := []struct {
		name                  string
		ready                 int
		events                string
		self, stream, another string // states of the worker, its events and its replay; empty: not there
	}{
		{"fit", 200, kv(live, live), stateOK, stateOK, stateOK},
		{"no events", 200, `null`, stateOK, stateMissing, ""},
		{"no replay", 200, kv(live, "0"), stateOK, stateOK, stateMissing},
		{"events unreachable", 200, kv(dead, live), stateOK, stateUnfit, stateOK},
		{"not ready", 503, `null`, stateUnfit, "", ""}, // nor is it soon
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			url := serveWorker(t, test.ready, test.events)
			args := []string{"--worker", url}
			if test.ready != http.StatusOK {
				args = append(args, "--wait", "100ms")
			}
			found, err := runDoctor(t, args...)
			unfit := false
			for name, want := range map[string]string{url: test.self, url + " events": test.stream, url + " replay": test.another} {
				if want == "" {
					continue
				}
				unfit = unfit || want == stateUnfit
				if f := find(t, found, name); f.State != want {
					t.Errorf("%+v, want %s", f, want)
				}
			}
			if errors.Is(err, errUnfit) != unfit {
				t.Errorf("doctor = %v, want unfit: %t", err, unfit)
			}
		})
	}
}

func TestDoctorGPUs(t *testing.T) {
	driver, err := nvmltest.Build(t.TempDir())
	if errors.Is(err, nvmltest.ErrNoCompiler) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	state := nvmltest.HGX()
	state.GPUs[1].Links[4].Up = 0
	state.GPUs[2].Lost = 1
	state.GPUs[3].RowsFailed, state.GPUs[3].Throttle, state.GPUs[3].Clock = 1, 0x80, 990
	state.GPUs[4] = nvmltest.GPU{Name: "NVIDIA L4"}
	state.GPUs[4].Total, state.GPUs[4].Temperature = 24<<30, 40
	state.GPUs[5].MIG, state.GPUs[5].MIGInstances = 1, 3
	if err := driver.Set(state); err != nil {
		t.Fatal(err)
	}
	t.Setenv(nvml.EnvLibrary, driver.Library)
	found, err := runDoctor(t)
	if err != nil {
		t.Fatal(err)
	}
	const h100 = "NVIDIA H100 80GB HBM3, 74.0 GiB of 80.0 GiB used, 87 % busy, 61 °C"
	tests := []struct{ name, state, detail, advice string }{
		{"driver", stateOK, "NVIDIA 570.86.15, CUDA up to 12.8", ""},
		{"GPU 0", stateOK, h100 + ", 18 NVLinks up, to a switch, 478 GB/s each way", ""},
		{
			"GPU 1", stateMissing, h100 + ", 17 of 18 NVLinks up, to a switch, 452 GB/s each way\n" +
				"degraded, no tensor-parallel work\n- 17 of 18 NVLinks up", "nvlink --status",
		},
		{"GPU 2", stateMissing, "unknown\ndead, no tensor-parallel work\n- the GPU is lost", "restart the machine"},
		{
			"GPU 3", stateMissing, h100 + ", 18 NVLinks up, to a switch, 478 GB/s each way\ndraining, no tensor-parallel work\n" +
				"- a row of memory could not be remapped\n- clocks at 50 %: power_brake", "replace",
		},
		{"GPU 4", stateOK, "NVIDIA L4, 0.0 GiB of 24.0 GiB used, 0 % busy, 40 °C, no NVLink", ""},
		{"GPU 5", stateOK, h100 + ", divided into 3, 18 NVLinks up, to a switch, 478 GB/s each way", ""},
	}
	for _, test := range tests {
		f := find(t, found, test.name)
		if f.State != test.state || f.Detail != test.detail || !strings.Contains(f.Advice, test.advice) || (f.Advice == "") != (test.advice == "") {
			t.Errorf("%+v, want %s, %q, advice with %q", f, test.state, test.detail, test.advice)
		}
	}
}

// TestDoctorCurve: a build without libzmq says that it cannot use keys; one with it, that this file has none.
func TestDoctorCurve(t *testing.T) {
	path := filepath.Join(t.TempDir(), "curve.keys")
	t.Setenv(zmq.EnvCurve, path)
	found, err := runDoctor(t)
	if !errors.Is(err, errUnfit) {
		t.Errorf("doctor = %v, want %v", err, errUnfit)
	}
	if f := find(t, found, "CURVE"); f.State != stateUnfit || !strings.Contains(f.Advice, zmq.EnvCurve) {
		t.Errorf("%+v, want %s and advice with %s", f, stateUnfit, zmq.EnvCurve)
	}
}

func TestDoctorNamesWhatIsNotZMQ(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		conn.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
	}()
	if err := greet(t.Context(), "tcp://"+listener.Addr().String()); !errors.Is(err, errNotZMQ) {
		t.Errorf("greet(an HTTP server) = %v, want %v", err, errNotZMQ)
	}
}

func TestReportTable(t *testing.T) {
	var out bytes.Buffer
	if err := report(&out, []finding{{"a", stateOK, "one\ntwo", ""}, {"bee", stateMissing, "gone", "bring it"}}, false); err != nil {
		t.Fatal(err)
	}
	want := "ok       a    one\n              two\nmissing  bee  gone\n              → bring it\n"
	if out.String() != want {
		t.Errorf("report =\n%swant\n%s", out.String(), want)
	}
}

// TestDoctorPairs: a prefill worker is fit where its bootstrap server says so, and events of decode workers are not missed.
func TestDoctorPairs(t *testing.T) {
	boot := func(status int) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		t.Cleanup(s.Close)
		_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
		return port
	}
	for _, test := range []struct {
		role, port       string
		bootstrap, wants string // states
	}{
		{"prefill", boot(http.StatusOK), stateOK, stateMissing},
		{"prefill", boot(http.StatusServiceUnavailable), stateUnfit, stateMissing},
		{"prefill", "1", stateUnfit, stateMissing},
		{"decode", "1", "", ""},
	} {
		url := serveWorker(t, 200, fmt.Sprintf(`null,"disaggregation_mode":%q,"disaggregation_bootstrap_port":%s`, test.role, test.port))
		wait := patience
		if test.bootstrap == stateUnfit {
			wait = time.Second // all of it passes
		}
		found, err := runDoctor(t, "--worker", url, "--wait", wait.String())
		for find(t, found, url).State != stateOK && wait < patience { // this machine may be slower than that
			wait *= 4
			found, err = runDoctor(t, "--worker", url, "--wait", wait.String())
		}
		if (err != nil) != (test.bootstrap == stateUnfit) {
			t.Errorf("%+v: doctor = %v", test, err)
		}
		if self := find(t, found, url); !strings.Contains(self.Detail, test.role) {
			t.Errorf("%+v, want the role %s", self, test.role)
		}
		states := map[string]string{}
		for _, f := range found {
			states[f.Name] = f.State
		}
		if states[url+" bootstrap"] != test.bootstrap || states[url+" events"] != test.wants {
			t.Errorf("%+v: found %+v", test, states)
		}
	}
}

// TestDoctorForeign names servers that are no SGLang.
func TestDoctorForeign(t *testing.T) {
	t.Parallel()
	vllm := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/models":
			fmt.Fprint(w, `{"object":"list","data":[{"id":"m","owned_by":"vllm","max_model_len":4096}]}`)
		case "/version":
			fmt.Fprint(w, `{"version":"0.11.0"}`)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer vllm.Close()
	found, err := runDoctor(t, vllm.URL)
	if err != nil {
		t.Errorf("doctor of a vLLM worker = %v, want nil: it can be routed to", err)
	}
	if f := find(t, found, vllm.URL); !strings.Contains(f.Detail, "vLLM 0.11.0") || !strings.Contains(f.Advice, "no KV events") {
		t.Errorf("%+v, want what it is and what that means", f)
	}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Server", "nginx/1.24.0")
		w.WriteHeader(http.StatusNotFound)
	}))
	defer web.Close()
	testkit.AwaitThat(t, func() bool { // on a busy machine it answers none of the questions by which it is known
		found, err = runDoctor(t, "--wait", "3s", web.URL)
		return err != nil && strings.Contains(find(t, found, web.URL).Detail, "nginx/1.24.0")
	}, func() string { return fmt.Sprintf("%+v, %v, want what it is, and an error", found, err) })
}

// TestDoctorBatches reads the batches that a worker keeps.
func TestDoctorBatches(t *testing.T) {
	for name, payload := range map[string]string{stateOK: "\x92\xcb\x40\x00\x00\x00\x00\x00\x00\x00\x91\x91\xb0AllBlocksCleared", stateUnfit: "\x92\xcb\x40\x00\x00\x00\x00\x00\x00\x00\x91\x91\xabPagesStored"} {
		t.Run(name, func(t *testing.T) {
			p, err := zmq.NewPublisher(zmq.PublisherConfig{Endpoint: "tcp://127.0.0.1:*", ReplayEndpoint: "tcp://127.0.0.1:*"})
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 1)
			go func() { done <- p.Run(t.Context()) }()
			t.Cleanup(func() {
				if err := <-done; err != nil {
					t.Error(err)
				}
			})
			for range 3 {
				p.Publish([]byte(payload))
			}
			port := func(endpoint string) string { return endpoint[strings.LastIndexByte(endpoint, ':')+1:] }
			url := serveWorker(t, 200, `{"endpoint_host":"*","endpoint_port_base":`+port(p.Endpoint())+`,"replay_endpoint_port_base":`+port(p.ReplayEndpoint())+`}`)
			found, err := runDoctor(t, url)
			if f := find(t, found, url+" batches"); f.State != name || errors.Is(err, errUnfit) != (name == stateUnfit) {
				t.Errorf("%+v, %v, want %s", f, err, name)
			}
		})
	}
}

// TestDoctorRouter asks a router for workers that need attention. A note makes none unfit.
func TestDoctorRouter(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/status" || r.Header.Get("Authorization") != "Bearer k" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Fprint(w, `{"workers":[{"id":"http://a"},
			{"id":"http://b","concerns":[{"kind":"worker_events_aside","severity":"warning","subject":"http://b","text":"untrue","advice":"compare"}]},
			{"id":"http://c","concerns":[{"kind":"worker_draining","severity":"note","subject":"http://c","text":"drains"}]}]}`)
	}))
	t.Cleanup(server.Close)
	found, err := runDoctor(t, "--router", server.URL, "--operator-key", "k")
	if f := find(t, found, "http://b"); f.State != stateUnfit || f.Detail != "untrue" || f.Advice != "compare" || !errors.Is(err, errUnfit) {
		t.Errorf("%+v, %v", f, err)
	}
	if f := find(t, found, "http://c"); f.State != stateOK || f.Detail != "drains" {
		t.Errorf("%+v", f)
	}
	if f := find(t, found, "router "+server.URL); f.State != stateOK {
		t.Errorf("%+v", f)
	}
	found, err = runDoctor(t, "--router", server.URL)
	if f := find(t, found, "router "+server.URL); f.State != stateUnfit || !errors.Is(err, errUnfit) {
		t.Errorf("%+v, %v", f, err)
	}
}
