package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/cluster/natstest"
	"github.com/warmpath/warmpath/dataplane/testkit"
)

// process is a `warmpath` that can be killed and started again.
type process struct {
	t    *testing.T
	args []string
	log  *processLog // last
	cmd  *exec.Cmd

	env   []string   // besides this process's
	files []*os.File // of a process that systemd would start: descriptors from 3 on
}

// processLog is the output of a process. It can be read meanwhile.
type processLog struct {
	mu   sync.Mutex
	text []byte // guarded by mu
}

// Write implements io.Writer.
func (s *processLog) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text = append(s.text, p...)
	return len(p), nil
}

// String returns all of it.
func (s *processLog) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.text)
}

func newProcess(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{t: t, args: args}
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("warmpath %s said\n%s", strings.Join(args, " "), p.log)
		}
	})
	p.start()
	return p
}

func (p *process) start() {
	p.t.Helper()
	p.log = &processLog{}
	p.cmd = exec.Command(os.Args[0], p.args...)
	if p.files != nil { // for this very process
		p.cmd = exec.Command("sh", append([]string{"-c", `LISTEN_PID=$$ exec "$0" "$@"`, os.Args[0]}, p.args...)...)
		p.cmd.ExtraFiles = p.files
	}
	p.cmd.Env = append(os.Environ(), p.env...)
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a successor ends with it
	require.NoError(p.t, p.cmd.Start())
}

// kill is kill -9.
func (p *process) kill() {
	if p.cmd == nil {
		return
	}
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	_ = p.cmd.Wait()
	p.cmd = nil
}

// freePorts returns addresses on loopback that nobody else is given until the test ends.
func freePorts(t *testing.T, n int) []string {
	t.Helper()
	list := make([]string, n)
	for i := range list {
		list[i] = natstest.Address(t)
	}
	return list
}

// site is a cluster of processes: NATS, two nodes with two workers each, two routers.
type site struct {
	nats    *natstest.Server
	workers []string // URLs
	fronts  []string // addresses of the routers
}

func startSite(t *testing.T) *site {
	t.Helper()
	s := &site{nats: natstest.Start(t), fronts: freePorts(t, 2)}
	for _, w := range startFleet(t, 4).sims {
		s.workers = append(s.workers, w.URL())
	}
	for i := range 2 {
		newProcess(t, "node", "--cluster", s.nats.URL(), "--name", "node-"+strconv.Itoa(i), "--listen", "127.0.0.1:0", "--no-find",
			"--worker", s.workers[2*i], "--worker", s.workers[2*i+1])
	}
	for _, addr := range s.fronts {
		newProcess(t, serveArgs("--cluster", s.nats.URL(), "--listen", addr)...)
	}
	for _, addr := range s.fronts {
		awaitReady(t, addr, 4)
	}
	return s
}

// serveArgs are those of a router that holds it against nobody that this machine, which may be busy, lets it wait for an answer.
func serveArgs(args ...string) []string {
	return append([]string{"serve", "--probe-timeout", patience.String(), "--hang-after", patience.String(), "--cluster-wait", patience.String()}, args...)
}

// awaitReady waits until a router counts so many workers as ready.
func awaitReady(t *testing.T, addr string, workers int) {
	t.Helper()
	var last string
	testkit.AwaitThat(t, func() bool {
		last = fetch(http.MethodGet, "http://"+addr+"/ready", "")
		var state struct {
			Workers int `json:"workers_ready"`
		}
		return json.Unmarshal([]byte(last), &state) == nil && state.Workers == workers
	}, func() string { return fmt.Sprintf("%s has not %d workers: %s", addr, workers, last) })
}

// fetch reads a page of a process, "" while there is none.
func fetch(method, url, body string) string {
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return ""
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return string(text)
}
