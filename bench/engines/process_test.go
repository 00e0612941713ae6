//go:build engines

package engines_test

import (
	"bytes"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/warmpath/warmpath/dataplane/cluster/natstest"
)

// keeper starts processes that cannot outlive the test's process.
//
// The kernel sends Pdeathsig when the thread that forked the child ends, not when the process does. So all of them are
// started by one thread that lives as long as the process. A test that is killed by its -timeout runs no cleanup, and
// without this it would leave engines behind that hold 1 GB and a core each.
type keeper struct {
	starts chan func()
}

func newKeeper() *keeper {
	k := &keeper{starts: make(chan func())}
	go func() {
		runtime.LockOSThread()
		for start := range k.starts {
			start()
		}
	}()
	return k
}

func (k *keeper) start(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	failed := make(chan error)
	k.starts <- func() { failed <- cmd.Start() }
	return <-failed
}

// process is one child of the test: an engine, the router, or the Python client.
type process struct {
	name string
	cmd  *exec.Cmd
	log  string // file with its standard error, and its standard output where nobody reads that
	dead chan struct{}
	once sync.Once
}

// spawn starts a child whose output goes to a log file, and kills its process group when the test ends. The log is saved
// when the test has failed.
func spawn(t *testing.T, k *keeper, dir, name string, cmd *exec.Cmd) *process {
	t.Helper()
	log, err := os.Create(filepath.Join(dir, name+".log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd.Stderr = log
	if cmd.Stdout == nil {
		cmd.Stdout = log
	}
	if err := k.start(cmd); err != nil {
		t.Fatalf("cannot start %s: %v", name, err)
	}
	p := &process{name: name, cmd: cmd, log: log.Name(), dead: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // Every one of them ends by a signal: the status says nothing.
		close(p.dead)
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			p.saveLog(t)
		}
	})
	return p
}

// saveLog prints the end of the log, and keeps all of it where results are kept.
func (p *process) saveLog(t *testing.T) {
	t.Helper()
	t.Logf("end of %s's log:\n%s", p.name, tail(p.log, 40))
	text, err := os.ReadFile(p.log)
	if err != nil {
		t.Error(err)
		return
	}
	save(t, p.name+".log", text)
}

// kill ends the whole process group at once and returns when the child is gone.
func (p *process) kill() {
	p.once.Do(func() { _ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) })
	<-p.dead
}

// signal sends a signal to the whole process group.
func (p *process) signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(-p.cmd.Process.Pid, sig); err != nil {
		t.Fatalf("cannot send %v to %s: %v", sig, p.name, err)
	}
}

// stop asks the child to end (SIGTERM), and kills it after a while. It returns how long that took.
func (p *process) stop(grace time.Duration) time.Duration {
	began := time.Now()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.dead:
	case <-time.After(grace):
	}
	p.kill()
	return time.Since(began)
}

// tail returns the last lines of a file.
func tail(path string, lines int) string {
	f, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	if end, err := f.Seek(0, io.SeekEnd); err == nil {
		_, _ = f.Seek(max(0, end-64<<10), io.SeekStart)
	}
	text, _ := io.ReadAll(f)
	all := strings.Split(string(bytes.TrimRight(text, "\n")), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// freePorts returns n ports of loopback that belong to the test until its end.
func freePorts(t *testing.T, n int) []int {
	t.Helper()
	ports := make([]int, n)
	for i := range ports {
		ports[i] = int(netip.MustParseAddrPort(natstest.Address(t)).Port())
	}
	return ports
}

// cpu returns the CPU seconds of the process and of those that it started, user and system.
func (p *process) cpu(t *testing.T) float64 {
	t.Helper()
	const ticks = 100 // USER_HZ, a constant of Linux's interface
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	sum := 0
	for _, file := range stats {
		raw, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		// "pid (name) state ppid pgrp … utime stime", of which the name may hold anything.
		fields := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
		if fields[2] != strconv.Itoa(p.cmd.Process.Pid) {
			continue
		}
		for _, f := range fields[11:13] {
			n, _ := strconv.Atoi(f)
			sum += n
		}
	}
	return float64(sum) / ticks
}
