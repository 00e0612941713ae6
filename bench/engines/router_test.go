//go:build engines

package engines_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// router is one `warmpath serve` process.
type router struct {
	url  string
	proc *process
}

// buildWarmpath compiles the command that is under test from this working tree. WARMPATH_BIN names a built one instead.
func buildWarmpath(t *testing.T, dir string) string {
	t.Helper()
	if given := os.Getenv("WARMPATH_BIN"); given != "" {
		return given
	}
	binary := filepath.Join(dir, "warmpath")
	if out, err := exec.Command("go", "build", "-o", binary, "../../cmd/warmpath").CombinedOutput(); err != nil {
		t.Fatalf("cannot build warmpath: %v\n%s", err, out)
	}
	return binary
}

// unhurried are settings of a router on a machine that may stand still for seconds: with the defaults an engine that answers no probe for so
// long counts as one that hangs, which it is where every process has cores of its own. One that died refuses connections at once.
var unhurried = []string{"--probe-timeout", "10s", "--hang-after", "5m", "--pair-timeout", "5m"}

// allowed lets the engines name the files of their models, which lie in the installation, in testdata or in a test's own folder.
func allowed(t *testing.T) []string {
	t.Helper()
	templates, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	return []string{"--allow-model-path", installation(t), "--allow-model-path", templates, "--allow-model-path", os.TempDir()}
}

// startRouter runs the router on the engines, which it knows by URL alone, and waits until every engine has answered a
// request through it: only then are its expectations worth a comparison.
func startRouter(t *testing.T, k *keeper, dir, binary, policy string, engines []*engine, more ...string) *router {
	t.Helper()
	r := &router{url: fmt.Sprintf("http://127.0.0.1:%d", freePorts(t, 1)[0])}
	args := append([]string{"serve", "--listen", r.url[len("http://"):], "--policy", policy}, slices.Concat(unhurried, allowed(t), more)...)
	pairs := false
	for _, e := range engines {
		args = append(args, e.flag(), e.url)
		pairs = pairs || e.mode != ""
	}
	name := fmt.Sprintf("router-%s-%d", policy, time.Now().UnixMilli())
	r.proc = spawn(t, k, dir, name, exec.Command(binary, args...))
	r.waitReady(t, len(engines))
	if !pairs { // which answer by twos
		r.waitWorkers(t, len(engines))
	}
	return r
}

// routerStatus is what the tests read of GET /status.
type routerStatus struct {
	InFlight int64 `json:"in_flight"`
	Workers  []workerStatus
}

type workerStatus struct {
	URL      string
	State    string
	InFlight int64 `json:"in_flight"`
	Pending  int64 `json:"pending_tokens"`
	Events   struct{ State string }
	Breaker  struct{ Opened uint64 }
	Load     struct {
		InFlight int64 `json:"own_in_flight"`
		Pending  int64 `json:"own_pending_tokens"`
		Reserved int64 `json:"reserved_tokens"` // for answers of decode workers
		SetAside []any `json:"set_aside"`       // fields of load reports that contradict what the router sees
	}
}

func (r *router) status(t *testing.T) routerStatus {
	t.Helper()
	answer, err := http.Get(r.url + "/status")
	if err != nil {
		t.Fatalf("cannot read the router's status: %v", err)
	}
	defer answer.Body.Close()
	var st routerStatus
	if err := json.NewDecoder(answer.Body).Decode(&st); err != nil {
		t.Fatalf("cannot read the router's status: %v", err)
	}
	return st
}

// waitStatus polls the router's status until it fits.
func (r *router) waitStatus(t *testing.T, what string, fits func(routerStatus) bool) {
	t.Helper()
	limit := time.Now().Add(patience)
	for {
		st := r.status(t)
		if fits(st) {
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("after %v the router has not %s: %+v", patience, what, st)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// waitReady waits until the router may use n workers and hears their events.
func (r *router) waitReady(t *testing.T, n int) {
	t.Helper()
	limit := time.Now().Add(patience)
	for !answers(r.url + "/health") { // the process has to begin to listen
		if time.Now().After(limit) {
			t.Fatalf("the router does not listen after %v", patience)
		}
		<-time.After(10 * time.Millisecond)
	}
	r.waitStatus(t, "found its workers", func(st routerStatus) bool {
		ready := 0
		for _, w := range st.Workers {
			if w.State == "ready" && w.Events.State == "live" {
				ready++
			}
		}
		return ready == n
	})
}

// waitIdle waits until the router counts no request on any worker.
func (r *router) waitIdle(t *testing.T) {
	t.Helper()
	r.waitStatus(t, "given all load back", func(st routerStatus) bool {
		load := st.InFlight
		for _, w := range st.Workers {
			load += w.InFlight + w.Pending + w.Load.InFlight + w.Load.Pending + w.Load.Reserved
		}
		return load == 0
	})
}

// waitWorkers sends the smallest requests there are until n workers have answered one. Prompt and answer of three tokens
// fill no cache page, so they leave no trace in what is measured.
func (r *router) waitWorkers(t *testing.T, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	seen := map[string]bool{}
	var last outcome
	for len(seen) < n {
		if ctx.Err() != nil {
			t.Fatalf("after %v requests reach %d of %d engines: %v; the last: %+v", patience, len(seen), n, seen, last)
		}
		o := generate(ctx, r.url, []int{5, 6}, 1, false)
		if o.err == nil && o.worker != "" {
			seen[o.worker] = true
			continue
		}
		last = o
		<-time.After(20 * time.Millisecond)
	}
}
