package natstest

import (
	"bytes"
	"fmt"
	"net"
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
)

// module is the server's module, at the version of go.mod.
const module = "github.com/nats-io/nats-server/v2"

// patience is how long a server may take to listen, however slow the machine.
const patience = 2 * time.Minute

// program is built once for a test binary.
var program = sync.OnceValues(func() (string, error) { return Build(".", module) })

// Build builds the program of a package that the go.mod of dir names, and returns its path among
// the temporary files. `go run` links a program once for all test binaries and keeps it in its
// cache, which `go build` does not. One process builds at a time: two would compile it twice.
func Build(dir, pkg string) (path string, err error) {
	_, source, _, _ := runtime.Caller(0)
	lock, err := os.Open(source)
	if err != nil {
		return "", fmt.Errorf("cannot build %s: %w", pkg, err)
	}
	defer lock.Close() // unlocks it
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("cannot build %s: %w", pkg, err)
	}
	folder, err := os.MkdirTemp("", "warmpath-program-")
	if err != nil {
		return "", err
	}
	path = filepath.Join(folder, "program")
	build := exec.Command("go", "run", "-exec", "cp", pkg, path)
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("cannot build %s: %w\n%s", pkg, err, out)
	}
	return path, nil
}

// Server is one nats-server process with JetStream, on loopback, at a port that it keeps through
// restarts.
type Server struct {
	t     testing.TB
	addr  string // host:port
	store string
	more  []string
	cmd   *exec.Cmd
}

// Start runs a server until the test ends. more are further arguments.
func Start(t testing.TB, more ...string) *Server {
	t.Helper()
	s := Prepare(t, more...)
	s.Run()
	return s
}

// Prepare takes an address for a server that does not run yet.
func Prepare(t testing.TB, more ...string) *Server {
	t.Helper()
	s := &Server{t: t, addr: Address(t), store: t.TempDir(), more: more}
	t.Cleanup(s.Kill)
	return s
}

// URL is where clients connect.
func (s *Server) URL() string { return "nats://" + s.addr }

// PID is the process's.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Run starts the process and waits until it listens.
func (s *Server) Run() {
	s.t.Helper()
	path, err := program()
	if err != nil {
		s.t.Fatal(err)
	}
	host, port, _ := strings.Cut(s.addr, ":")
	args := append([]string{"-a", host, "-p", port, "-js", "-sd", s.store}, s.more...)
	s.cmd = exec.Command(path, args...)
	s.cmd.Stderr = nil
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		conn, err := net.Dial("tcp", s.addr)
		if err == nil {
			conn.Close()
			return
		}
		if time.Now().After(end) {
			s.t.Fatalf("nats-server %v does not listen: %v", args, err)
		}
	}
}

// Kill ends the process as kill -9 does.
func (s *Server) Kill() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
	s.cmd = nil
}

// Lose deletes the store of a killed server.
func (s *Server) Lose() {
	s.t.Helper()
	if err := os.RemoveAll(s.store); err != nil {
		s.t.Fatal(err)
	}
}

// Stop is SIGSTOP.
func (s *Server) Stop() { s.signal(syscall.SIGSTOP) }

// Continue is SIGCONT.
func (s *Server) Continue() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

// CPU returns the processor time of the process.
func (s *Server) CPU() time.Duration {
	s.t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.PID()))
	if err != nil {
		s.t.Fatal(err)
	}
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	// Fields 14 and 15 of proc(5), and Linux's USER_HZ.
	const user, system, tick = 11, 12, 10 * time.Millisecond
	var ticks int64
	for _, f := range []string{fields[user], fields[system]} {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			s.t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * tick
}
