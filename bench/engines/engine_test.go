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
	served     = "tiny" // the model's name: serve.sh's --served-model-name
	pageSize   = 4      // tokens a cache page: serve.sh's --page-size
	poolTokens = 4096   // tokens an engine's cache holds: serve.sh's --max-total-tokens

	// startLimit is for an engine that hangs: one that ends is seen at once. Two take 28 s to start on
	// two idle cores, five of them 280 s and more on two that ten others use as well.
	startLimit = 15 * time.Minute
	// startTries is how often an engine is started: that SGLang may fail to start on a full machine
	// says nothing about the router.
	startTries = 3

	// patience bounds every wait for something that comes at once, and answersIn one for up to 60 answers: a machine that does much else may
	// take seconds for what is done in milliseconds on an idle one.
	patience  = 3 * time.Minute
	answersIn = 10 * time.Minute
)

// engine is one real SGLang server.
type engine struct {
	index   int
	mode    string // prefill or decode; empty where one engine answers alone
	backend string // that moves the KV pages of a pair: nixl or mooncake
	url     string
	ports   []int // HTTP, events, replay; the bootstrap server of a prefill engine
	flags   []string
	env     []string
	proc    *process
	began   time.Time // when it was started
	ready   bool      // since then
	again   func()    // starts it once more, as it was started
}

// portsEach is how many ports an engine is given.
const portsEach = 4

// name is what logs call the engine.
func (e *engine) name() string {
	if e.mode == "" {
		return fmt.Sprintf("engine %d", e.index+1)
	}
	return fmt.Sprintf("%s %d (%s)", e.mode, e.index+1, e.backend)
}

// flag is how `warmpath serve` is told of the engine.
func (e *engine) flag() string {
	if e.mode == "" {
		return "--worker"
	}
	return "--" + e.mode
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

// start runs the engine's process; waitReady waits for it. A second start comes back on the same ports.
func (e *engine) start(t *testing.T, k *keeper, dir string) {
	t.Helper()
	args, ports := []string{"serve.sh"}, e.ports[:3]
	if e.mode != "" {
		args, ports = []string{"pd.sh", e.backend, e.mode}, e.ports
	}
	for _, port := range ports {
		args = append(args, strconv.Itoa(port))
	}
	cmd := exec.Command("bash", append(args, e.flags...)...)
	cmd.Env = append(append(os.Environ(), "BIND="+strconv.Itoa(e.index%runtime.NumCPU())), e.env...)
	name := fmt.Sprintf("engine%s%s%d-%d", e.backend, e.mode, e.index+1, time.Now().UnixMilli())
	e.proc, e.began, e.ready = spawn(t, k, dir, name, cmd), time.Now(), false
	e.again = func() { e.start(t, k, dir) }
}

// isReady asks /ready, which costs the engine nothing: /health generates a token. The bootstrap server of a prefill engine
// may know its engine before or after that.
func (e *engine) isReady() bool {
	if !answers(e.url + "/ready") {
		return false
	}
	const route = "http://127.0.0.1:%d/route?prefill_dp_rank=-1&prefill_cp_rank=-1&target_tp_rank=-1&target_pp_rank=-1"
	return e.mode != "prefill" || answers(fmt.Sprintf(route, e.ports[3]))
}

// answers asks for a URL that a ready engine answers with status 200.
func answers(url string) bool {
	client := http.Client{Timeout: 10 * time.Second}
	answer, err := client.Get(url)
	if err != nil {
		return false
	}
	answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}

// waitReady polls every period until the engine is ready and returns that moment.
func (e *engine) waitReady(t *testing.T, period time.Duration) time.Time {
	t.Helper()
	waitEach(t, period, []*engine{e})
	return time.Now()
}

// waitAll waits until all engines are ready.
func waitAll(t *testing.T, engines []*engine) {
	t.Helper()
	waitEach(t, 100*time.Millisecond, engines)
}

// waitEach polls engines every period until all are ready. One that does not start is started again.
func waitEach(t *testing.T, period time.Duration, engines []*engine) {
	t.Helper()
	tries := map[*engine]int{}
	for told := time.Now(); ; <-time.After(period) {
		var waiting []string
		for _, e := range engines {
			switch why := e.poll(t); {
			case e.ready:
				continue
			case why != "":
				e.proc.kill()
				e.proc.saveLog(t)
				if tries[e]++; tries[e] == startTries {
					t.Fatalf("%s %s; it was started %d times", e.name(), why, startTries)
				}
				t.Logf("%s %s: it is started again", e.name(), why)
				e.again()
			}
			waiting = append(waiting, e.name())
		}
		if len(waiting) == 0 {
			return
		}
		if time.Since(told) > 30*time.Second {
			told = time.Now()
			t.Logf("not ready: %s", strings.Join(waiting, ", "))
		}
	}
}

// poll looks whether the engine has become ready, or why it will not.
func (e *engine) poll(t *testing.T) (why string) {
	t.Helper()
	took := time.Since(e.began)
	select {
	case <-e.proc.dead:
		if e.ready {
			t.Fatalf("%s was ready and has ended", e.name())
		}
		return "ended while it started"
	default:
	}
	switch {
	case e.ready:
	case e.isReady():
		e.ready = true
		t.Logf("%s ready on %s after %.1f s", e.name(), e.url, took.Seconds())
	case took > startLimit:
		return fmt.Sprintf("is not ready after %v", startLimit)
	}
	return ""
}

// startEngines runs n engines, each on a core of its own.
func startEngines(t *testing.T, k *keeper, dir string, n int) []*engine {
	t.Helper()
	engines := make([]*engine, n)
	for i := range engines {
		engines[i] = &engine{index: i}
	}
	launch(t, k, dir, engines)
	waitAll(t, engines)
	return engines
}

// launch gives engines their ports and starts them.
func launch(t *testing.T, k *keeper, dir string, engines []*engine) {
	t.Helper()
	ports := freePorts(t, portsEach*len(engines))
	for i, e := range engines {
		e.ports = ports[portsEach*i : portsEach*(i+1)]
		e.url = fmt.Sprintf("http://127.0.0.1:%d", e.ports[0])
		e.start(t, k, dir)
	}
}

// running is the number of requests that the engine works on; of a pair's engine also those that wait for their partner.
func (e *engine) running(t *testing.T) int {
	t.Helper()
	answer, err := http.Get(e.url + "/v1/loads")
	if err != nil {
		t.Fatalf("cannot read the load of %s: %v", e.name(), err)
	}
	defer answer.Body.Close()
	var body struct {
		Loads []struct {
			Running int `json:"num_running_reqs"`
			Waiting int `json:"num_waiting_reqs"`
		} `json:"loads"`
	}
	if err := json.NewDecoder(answer.Body).Decode(&body); err != nil {
		t.Fatalf("cannot read the load of %s: %v", e.name(), err)
	}
	total := 0
	for _, rank := range body.Loads {
		total += rank.Running + rank.Waiting
	}
	return total
}

// flush empties the engine's cache. It refuses while a request runs, so tries are part of the protocol.
func (e *engine) flush(t *testing.T) {
	t.Helper()
	var last string
	for began := time.Now(); time.Since(began) < patience; {
		answer, err := http.Post(e.url+"/flush_cache", "", nil)
		if err != nil {
			t.Fatalf("cannot flush %s: %v", e.name(), err)
		}
		text, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		if answer.StatusCode == http.StatusOK {
			return
		}
		last = strings.TrimSpace(string(text))
		<-time.After(100 * time.Millisecond)
	}
	t.Fatalf("%s does not flush: %s", e.name(), last)
}
