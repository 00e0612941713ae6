package chaos

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// process is a `warmpath` that is killed, stopped and started again.
type process struct {
	name    string
	args    []string
	env     []string
	log     *os.File
	violate func(format string, args ...any)
	launch  chan<- func()
	refuses func() bool // its files are unusable: a process that starts ends at once

	mu    sync.Mutex
	cmd   *exec.Cmd    // nil: it is not to run; guarded by mu
	spoke bool         // it has written a line; guarded by mu
	pid   atomic.Int64 // of the process or of its last successor; 0: none runs
	taken atomic.Int64 // successors that have taken over, and upgrades that failed
}

var (
	// troubles are lines that no process may write.
	troubles  = regexp.MustCompile(`WARNING: DATA RACE|^panic: |^fatal error: |\[recovered\]|level=ERROR msg="[^"]*panic`)
	successor = regexp.MustCompile(`msg="the upgrade begins.* pid=(\d+)`)
)

// start starts the process, if it does not run.
func (p *process) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil {
		return nil
	}
	cmd := exec.Command(p.args[0], p.args[1:]...)
	cmd.Env = append(os.Environ(), p.env...)
	// A successor ends with it, and it with the thread that starts it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	out, in, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("cannot make a pipe: %w", err)
	}
	cmd.Stdout, cmd.Stderr = in, in
	started := make(chan error, 1)
	p.launch <- func() { started <- cmd.Start() }
	if err := <-started; err != nil {
		return fmt.Errorf("cannot start %s: %w", p.name, err)
	}
	_ = in.Close()
	p.cmd, p.spoke = cmd, false
	p.pid.Store(int64(cmd.Process.Pid))
	go p.read(out, cmd)
	go p.wait(cmd)
	return nil
}

// read keeps the output of the process and looks for troubles in it. The last words of one that has
// ended may be read behind the first ones of the next.
func (p *process) read(out io.ReadCloser, cmd *exec.Cmd) {
	defer out.Close()
	next := int64(0)
	for lines := bufio.NewReader(out); ; {
		line, err := lines.ReadBytes('\n')
		_, _ = p.log.Write(line)
		if troubles.Match(line) {
			p.violate("%s says %s", p.name, bytes.TrimSpace(line))
		}
		if m := successor.FindSubmatch(line); m != nil {
			next, _ = strconv.ParseInt(string(m[1]), 10, 64)
		}
		took := bytes.Contains(line, []byte("this process has taken over"))
		p.mu.Lock()
		if p.cmd == cmd {
			p.spoke = p.spoke || len(line) > 0
			if took {
				p.pid.Store(next)
			}
		}
		p.mu.Unlock()
		switch {
		case took:
			p.taken.Add(1)
		case bytes.Contains(line, []byte("the upgrade has failed")), bytes.Contains(line, []byte("no upgrade")):
			p.taken.Add(1)
		}
		if err != nil {
			return
		}
	}
}

// wait sees the process end: only because it was told to, has a successor, or cannot start, when it
// is started again as by systemd.
func (p *process) wait(cmd *exec.Cmd) {
	err := cmd.Wait()
	time.Sleep(restartAfter)
	p.mu.Lock()
	itself := p.cmd == cmd && p.pid.Load() == int64(cmd.Process.Pid)
	if itself {
		p.cmd = nil
	}
	p.mu.Unlock()
	if itself && p.refuses() {
		err = p.start()
		itself = err != nil
	}
	if itself {
		p.violate("%s has ended by itself: %v", p.name, err)
	}
}

// restartAfter is the pause before it, as by systemd.
const restartAfter = 100 * time.Millisecond

// end sends a signal that ends the process, and returns when it and its successors are no more.
func (p *process) end(sig syscall.Signal) {
	p.mu.Lock()
	cmd, pid := p.cmd, int(p.pid.Load())
	p.cmd = nil
	p.pid.Store(0)
	p.mu.Unlock()
	if cmd == nil {
		return
	}
	group := cmd.Process.Pid
	if sig != syscall.SIGKILL {
		_ = syscall.Kill(pid, sig)
		for end := time.Now().Add(patience); alive(pid) && time.Now().Before(end); {
			time.Sleep(pollEvery)
		}
	}
	_ = syscall.Kill(-group, syscall.SIGKILL)
	for alive(pid) || alive(group) {
		time.Sleep(pollEvery)
	}
}

// alive reports whether a process runs. The status of one that has ended may be unread yet, and its
// first thread may have ended before others, which keep its sockets.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil || !bytes.Contains(stat, []byte(") Z ")) {
		return err == nil
	}
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	return err == nil && len(threads) > 1
}

// signal sends a signal that does not end the process. Between exec and its first line the process
// catches none, and the kernel's default would end it.
func (p *process) signal(sig syscall.Signal) {
	for end := time.Now().Add(patience); !p.speaks() && time.Now().Before(end); {
		time.Sleep(pollEvery)
	}
	if pid := p.pid.Load(); pid != 0 {
		_ = syscall.Kill(int(pid), sig)
	}
}

// speaks reports whether the process, if one is to run, has written a line.
func (p *process) speaks() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmd == nil || p.spoke
}

// limit bounds the files that the process may write: beyond it a write fails as on a full disk.
func (p *process) limit(bytes uint64) {
	if pid := p.pid.Load(); pid != 0 {
		_ = unix.Prlimit(int(pid), unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: bytes, Max: unix.RLIM_INFINITY}, nil)
	}
}

// limitFiles has the process find no descriptor for a new file or connection.
func (p *process) limitFiles() (heal func()) {
	pid := int(p.pid.Load())
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	var before unix.Rlimit
	if pid == 0 || err != nil || unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &before) != nil {
		return nil
	}
	set := func(n uint64) {
		// It may have ended.
		_ = unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: before.Max}, nil)
	}
	set(uint64(len(open)))
	return func() { set(before.Cur) }
}

// cut shuts the process's TCP connections with matching ports, as a network that loses them.
func (p *process) cut(match func(local, peer int) bool) {
	pid := int(p.pid.Load())
	of, err := unix.PidfdOpen(pid, 0)
	if pid == 0 || err != nil {
		return
	}
	defer unix.Close(of)
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, file := range files {
		if to, _ := os.Readlink(file); !strings.HasPrefix(to, "socket:") {
			continue
		}
		number, err := strconv.Atoi(filepath.Base(file))
		if err != nil {
			continue
		}
		if fd, err := unix.PidfdGetfd(of, number, 0); err == nil {
			local, err1 := unix.Getsockname(fd)
			peer, err2 := unix.Getpeername(fd)
			if errors.Join(err1, err2) == nil && match(portOf(local), portOf(peer)) {
				_ = unix.Shutdown(fd, unix.SHUT_RDWR)
			}
			_ = unix.Close(fd)
		}
	}
}

func portOf(a unix.Sockaddr) int {
	switch a := a.(type) {
	case *unix.SockaddrInet4:
		return a.Port
	case *unix.SockaddrInet6:
		return a.Port
	}
	return 0
}
