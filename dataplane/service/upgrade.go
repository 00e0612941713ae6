package service

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Predecessor is the process that started this one, which takes over from it.
type Predecessor struct {
	link net.Conn
	left chan struct{}
}

func newPredecessor(link net.Conn) *Predecessor {
	p := &Predecessor{link: link, left: make(chan struct{})}
	go func() {
		defer close(p.left)
		_, _ = io.Copy(io.Discard, link)
		_ = link.Close()
	}()
	return p
}

// Left is closed when the process has left the sockets to this one, or has ended.
func (p *Predecessor) Left() <-chan struct{} { return p.left }

// Succeed tells it that this process accepts connections, and waits until it has left.
func (p *Predecessor) Succeed() {
	_, _ = p.link.Write([]byte{1}) // one that has ended has left
	<-p.left
}

// Successor is a process that is to take over from this one.
type Successor struct {
	PID     int
	process *os.Process
	link    net.Conn
	ended   chan struct{}
	state   *os.ProcessState // once ended is closed
}

// StartSuccessor starts this process's program again, with its arguments and environment, and with
// the listeners: of clients and, where there is a second one, of operators. The program is looked
// up by its name, under which a new version may be by now. kept says that systemd has the sockets
// too.
func StartSuccessor(listeners []net.Listener, kept bool) (*Successor, error) {
	program, err := exec.LookPath(os.Args[0])
	if err != nil {
		return nil, fmt.Errorf("cannot find the program: %w", err)
	}
	link, theirs, err := connected()
	if err != nil {
		return nil, fmt.Errorf("cannot make a pair of sockets: %w", err)
	}
	defer func() { _ = unix.Close(theirs) }()
	whose := ofItsPredecessor
	if kept {
		whose = ofSystemd
	}
	pid, err := fork(program, listeners, theirs, successorEnv+"="+whose)
	if err != nil {
		_ = link.Close()
		return nil, fmt.Errorf("cannot start %s: %w", program, err)
	}
	s := &Successor{PID: pid, link: link, ended: make(chan struct{})}
	if s.process, err = os.FindProcess(pid); err != nil {
		_ = link.Close()
		return nil, fmt.Errorf("cannot find process %d: %w", pid, err)
	}
	go func() {
		defer close(s.ended)
		s.state, _ = s.process.Wait()
	}()
	return s, nil
}

// connected returns the two ends of a connection.
func connected() (own net.Conn, theirs int, err error) {
	syscall.ForkLock.RLock() // no other process that is being started inherits them
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.CloseOnExec(pair[0])
		unix.CloseOnExec(pair[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, 0, err
	}
	f := os.NewFile(uintptr(pair[0]), linkName)
	defer func() { _ = f.Close() }() // a copy is in use
	if own, err = net.FileConn(f); err != nil {
		_ = unix.Close(pair[1])
	}
	return own, pair[1], err
}

// fork starts the program. os.StartProcess would take files, and File.Fd makes a socket block for
// all processes that have it: an Accept of this one would never end.
func fork(program string, listeners []net.Listener, link int, mark string) (pid int, err error) {
	files, names := []uintptr{0, 1, 2}, []string{}
	defer func() {
		for _, fd := range files[3:] {
			_ = unix.Close(int(fd))
		}
	}()
	for i, l := range listeners {
		fd, err := duplicate(l)
		if err != nil {
			return 0, err
		}
		files, names = append(files, uintptr(fd)), append(names, []string{clientsName, operatorName}[i])
	}
	fd, err := unix.FcntlInt(uintptr(link), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	files, names = append(files, uintptr(fd)), append(names, linkName)
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "LISTEN_") })
	env = append(env, mark, "LISTEN_FDS="+strconv.Itoa(len(names)), "LISTEN_FDNAMES="+strings.Join(names, ":"))
	return syscall.ForkExec(program, os.Args, &syscall.ProcAttr{Env: env, Files: files})
}

// duplicate returns another descriptor of a listener.
func duplicate(l net.Listener) (fd int, err error) {
	tcp, ok := l.(*net.TCPListener)
	if !ok {
		return 0, fmt.Errorf("cannot pass on %s: %w", l.Addr(), ErrSockets)
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return 0, err
	}
	var dup error
	err = raw.Control(func(from uintptr) { fd, dup = unix.FcntlInt(from, unix.F_DUPFD_CLOEXEC, 0) })
	if err == nil {
		err = dup
	}
	return fd, err
}

// Await waits until the Successor accepts connections. An error is its end before that.
func (s *Successor) Await() error {
	if n, _ := s.link.Read(make([]byte, 1)); n == 1 {
		return nil
	}
	_ = s.link.Close()
	<-s.ended
	return fmt.Errorf("the new process has ended before it could serve: %v", s.state)
}

// Leave tells it that this process has left the sockets.
func (s *Successor) Leave() { _ = s.link.Close() }

// Stop has it drain and end.
func (s *Successor) Stop() { _ = s.process.Signal(syscall.SIGTERM) }
