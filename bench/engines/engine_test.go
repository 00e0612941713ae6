//go:build engines

package engines_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

const (
	pageSize   = 4    // tokens a cache page: serve.sh's --page-size
	poolTokens = 4096 // tokens an engine's cache holds: serve.sh's --max-total-tokens

	// An engine takes 28 s to start on two idle cores and 90 s on two that others use as well.
	startLimit = 6 * time.Minute
)

// engine is one real SGLang server.
type engine struct {
	index int
	url   string
	ports []int // HTTP, events, replay
	proc  *process
}

// installation returns the folder that install.sh filled.
func installation(t *testing.T) string {
	t.Helper()
	root := os.Getenv("WARMPATH_ENGINES")
	if root == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			t.Fatal(err)
		}
		root = filepath.Join(home, ".cache", "warmpath-engines")
	}
	if _, err := os.Stat(filepath.Join(root, "ready")); err != nil {
		t.Fatalf("no engine in %s: run bench/engines/install.sh first", root)
	}
	return root
}

// python is the interpreter that has SGLang and the openai client.
func python(t *testing.T) string {
	t.Helper()
	return filepath.Join(installation(t), "sglang", "bin", "python")
}

// start runs the engine's process; ready waits for it. A second start comes back on the same ports.
func (e *engine) start(t *testing.T, k *keeper, dir string) {
	t.Helper()
	args := []string{"serve.sh"}
	for _, port := range e.ports {
		args = append(args, strconv.Itoa(port))
	}
	cmd := exec.Command("bash", args...)
	cmd.Env = append(os.Environ(), "BIND="+strconv.Itoa(e.index%runtime.NumCPU()))
	e.proc = spawn(t, k, dir, fmt.Sprintf("engine%d-%d", e.index+1, time.Now().Unix()), cmd)
}

// isReady asks /ready, which costs the engine nothing: /health generates a token.
func (e *engine) isReady() bool {
	client := http.Client{Timeout: time.Second}
	answer, err := client.Get(e.url + "/ready")
	if err != nil {
		return false
	}
	answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}

// waitReady polls every period until the engine is ready and returns that moment.
func (e *engine) waitReady(t *testing.T, period time.Duration) time.Time {
	t.Helper()
	began := time.Now()
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	told := began
	for !e.isReady() {
		select {
		case <-e.proc.dead:
			t.Fatalf("engine %d ended while it started", e.index+1)
		case now := <-ticker.C:
			if now.Sub(told) > 10*time.Second {
				told = now
				t.Logf("engine %d is not ready after %.0f s", e.index+1, now.Sub(began).Seconds())
			}
			if now.Sub(began) > startLimit {
				t.Fatalf("engine %d is not ready after %v", e.index+1, startLimit)
			}
		}
	}
	t.Logf("engine %d ready on %s after %.1f s", e.index+1, e.url, time.Since(began).Seconds())
	return time.Now()
}

// startEngines runs n engines, each on a core of its own.
func startEngines(t *testing.T, k *keeper, dir string, n int) []*engine {
	t.Helper()
	ports := freePorts(t, 3*n)
	var engines []*engine
	for i := range n {
		e := &engine{index: i, ports: ports[3*i : 3*i+3]}
		e.url = fmt.Sprintf("http://127.0.0.1:%d", e.ports[0])
		e.start(t, k, dir)
		engines = append(engines, e)
	}
	for _, e := range engines {
		e.waitReady(t, 100*time.Millisecond)
	}
	return engines
}

// running is the number of requests that the engine works on.
func (e *engine) running(t *testing.T) int {
	t.Helper()
	answer, err := http.Get(e.url + "/v1/loads")
	if err != nil {
		t.Fatalf("cannot read engine %d's load: %v", e.index+1, err)
	}
	defer answer.Body.Close()
	var body struct {
		Loads []struct {
			Running int `json:"num_running_reqs"`
			Waiting int `json:"num_waiting_reqs"`
		} `json:"loads"`
	}
	if err := json.NewDecoder(answer.Body).Decode(&body); err != nil {
		t.Fatalf("cannot read engine %d's load: %v", e.index+1, err)
	}
	total := 0
	for _, rank := range body.Loads {
		total += rank.Running + rank.Waiting
	}
	return total
}

// flush empties the engine's cache. It refuses while a request runs, so a few tries are part of the protocol.
func (e *engine) flush(t *testing.T) {
	t.Helper()
	var last string
	for range 50 {
		answer, err := http.Post(e.url+"/flush_cache", "", nil)
		if err != nil {
			t.Fatalf("cannot flush engine %d: %v", e.index+1, err)
		}
		text, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		if answer.StatusCode == http.StatusOK {
			return
		}
		last = strings.TrimSpace(string(text))
		<-time.After(100 * time.Millisecond)
	}
	t.Fatalf("engine %d does not flush: %s", e.index+1, last)
}
