package zmq

import (
	"errors"

	zmq4 "github.com/pebbe/zmq4"
	"golang.org/x/sys/unix"
)

// readiness tells which of many sockets may have messages. libzmq's own poll looks at each socket on every call, 30 µs a
// message with 4,000 streams; epoll on the sockets' descriptors costs the same with any number of them.
//
// A socket's descriptor (ZMQ_FD) says only that libzmq's threads sent the socket a command since it last looked. It is
// not set again for messages already announced. So a socket must be read until nothing waits, as libzmq then has looked
// at its commands, or else be read again without waiting; a new socket is read once at the start.
type readiness struct {
	epoll  int
	events [128]unix.EpollEvent
}

func newReadiness() (*readiness, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	return &readiness{epoll: fd}, nil
}

func (q *readiness) add(s *zmq4.Socket, id int32) error {
	fd, err := s.GetFd()
	if err != nil {
		return err
	}
	return unix.EpollCtl(q.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: id})
}

// remove must come before the socket is closed: libzmq closes the descriptor later, in its own thread.
func (q *readiness) remove(s *zmq4.Socket, _ int32) error {
	fd, err := s.GetFd()
	if err != nil {
		return err
	}
	return unix.EpollCtl(q.epoll, unix.EPOLL_CTL_DEL, fd, nil)
}

// wait calls fn with the ids of sockets to read. If block is set and there are none, it waits.
func (q *readiness) wait(block bool, fn func(id int32)) error {
	timeout := 0
	if block {
		timeout = -1
	}
	n, err := unix.EpollWait(q.epoll, q.events[:], timeout)
	for errors.Is(err, unix.EINTR) {
		n, err = unix.EpollWait(q.epoll, q.events[:], timeout)
	}
	if err != nil {
		return err
	}
	for _, e := range q.events[:n] {
		fn(e.Fd)
	}
	return nil
}

func (q *readiness) close() error { return unix.Close(q.epoll) }
