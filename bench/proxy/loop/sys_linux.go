package loop

import (
	"errors"
	"fmt"
	"net"
	"unsafe"

	"golang.org/x/sys/unix"
)

type event = unix.EpollEvent

const (
	canRead  = unix.EPOLLIN
	canWrite = unix.EPOLLOUT
	hungUp   = unix.EPOLLRDHUP | unix.EPOLLHUP | unix.EPOLLERR
	// backlog is the most that Linux takes by default; a burst of 10,000 connections waits in it.
	backlog = 4096
)

func openPoll() (poll, wake int, err error) {
	if poll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return 0, 0, err
	}
	if wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err == nil {
		err = add(poll, wake, canRead)
	}
	return poll, wake, err
}

func add(poll, fd int, what uint32) error {
	return unix.EpollCtl(poll, unix.EPOLL_CTL_ADD, fd, &event{Events: what, Fd: int32(fd)})
}

// watch is edge-triggered in both directions, so that a connection costs one call in its life.
func watch(poll, fd int) error { return add(poll, fd, canRead|canWrite|hungUp|unix.EPOLLET) }

// watchListener is level-triggered: accepts that failed for want of descriptors are tried again.
func watchListener(poll, fd int) error { return add(poll, fd, canRead) }

// wait first looks, by a call that the scheduler is not told of; only where there is nothing it
// waits, by one that it is told of.
func wait(poll int, events []event, patience int64) (int, error) {
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(poll), uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)), 0, 0, 0)
	if errno == 0 && (n > 0 || patience == 0) {
		return int(n), nil
	}
	var limit *unix.Timespec
	if patience >= 0 {
		ts := unix.NsecToTimespec(patience)
		limit = &ts
	}
	n, _, errno = unix.Syscall6(unix.SYS_EPOLL_PWAIT2, uintptr(poll), uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)),
		uintptr(unsafe.Pointer(limit)), 0, 0)
	switch errno {
	case 0:
		return int(n), nil
	case unix.EINTR:
		return 0, nil
	}
	return 0, errno
}

// sharpen lets time-outs of this thread be exact to the microsecond, where they else are late by
// 50.
func sharpen() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) }

// ring wakes the loop, silence takes the sign back. A counter that is full wakes as well.
func ring(fd int) { _, _ = unix.Write(fd, []byte{1, 0, 0, 0, 0, 0, 0, 0}) }

func silence(fd int) {
	var b [8]byte
	_, _ = unix.Read(fd, b[:])
}

func sockaddr(at *net.TCPAddr) (unix.Sockaddr, int, error) {
	if v4 := at.IP.To4(); v4 != nil || at.IP == nil {
		a := &unix.SockaddrInet4{Port: at.Port}
		copy(a.Addr[:], v4)
		return a, unix.AF_INET, nil
	}
	if at.Zone != "" {
		return nil, 0, fmt.Errorf("cannot use %v: %w", at, unix.EAFNOSUPPORT)
	}
	a := &unix.SockaddrInet6{Port: at.Port}
	copy(a.Addr[:], at.IP.To16())
	return a, unix.AF_INET6, nil
}

func socket(at *net.TCPAddr) (int, unix.Sockaddr, error) {
	sa, family, err := sockaddr(at)
	if err != nil {
		return 0, nil, err
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	return fd, sa, err
}

func listen(at *net.TCPAddr) (fd, port int, err error) {
	fd, sa, err := socket(at)
	if err != nil {
		return 0, 0, err
	}
	err = errors.Join(unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1), unix.Bind(fd, sa))
	if err == nil {
		err = unix.Listen(fd, backlog)
	}
	if err != nil {
		closeFD(fd)
		return 0, 0, err
	}
	got, err := unix.Getsockname(fd)
	switch a := got.(type) {
	case *unix.SockaddrInet4:
		port = a.Port
	case *unix.SockaddrInet6:
		port = a.Port
	}
	return fd, port, err
}

func accept(ln int) (int, error) {
	fd, _, err := unix.Accept4(ln, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
	if err == nil {
		prompt(fd)
	}
	return fd, err
}

func connect(at *net.TCPAddr) (int, error) {
	fd, sa, err := socket(at)
	if err != nil {
		return 0, err
	}
	prompt(fd)
	if err := unix.Connect(fd, sa); err != nil && !errors.Is(err, unix.EINPROGRESS) {
		closeFD(fd)
		return 0, err
	}
	return fd, nil
}

// prompt sends small pieces at once, as workers and clients do. A socket without it is slower, not
// wrong.
func prompt(fd int) { _ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1) }

func sockError(fd int) error {
	n, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err == nil && n != 0 {
		err = unix.Errno(n)
	}
	return err
}

// trySend sends as much as the socket takes now. The calls never block, so they bypass the
// scheduler.
func trySend(fd int, b []byte) (int, error) {
	for sent := 0; sent < len(b); {
		n, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(&b[sent])), uintptr(len(b)-sent),
			unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
		switch errno {
		case 0:
			sent += int(n)
		case unix.EAGAIN:
			return sent, nil
		case unix.EINTR:
		default:
			return sent, errno
		}
	}
	return len(b), nil
}

func tryReceive(fd int, b []byte) (n int, again bool, err error) {
	for {
		got, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)),
			unix.MSG_DONTWAIT, 0, 0)
		switch errno {
		case 0:
			return int(got), false, nil
		case unix.EAGAIN:
			return 0, true, nil
		case unix.EINTR:
		default:
			return 0, false, errno
		}
	}
}

func closeFD(fd int) { _ = unix.Close(fd) }
