package zmq

import (
	"syscall"

	zmq4 "github.com/pebbe/zmq4"
)

// maxFrames is the longest message that has a meaning to libzmq's sockets here: a replay request as a ROUTER sees it has
// 3 frames.
const maxFrames = 3

// frames is one multipart message of a libzmq socket. It keeps the first frames and counts them all, so that a hostile
// peer's thousand frames take no memory.
type frames struct {
	part [maxFrames][]byte
	n    int
}

// recv reads a whole message, or nothing if none waits. libzmq delivers messages whole: later frames cannot block.
func (f *frames) recv(s *zmq4.Socket) error {
	for more := true; more; f.n++ {
		b, err := s.RecvBytes(zmq4.DONTWAIT)
		if err != nil {
			return err
		}
		if f.n < maxFrames {
			f.part[f.n] = b
		}
		if more, err = s.GetRcvmore(); err != nil {
			return err
		}
	}
	return nil
}

// again reports whether err only says that nothing waits.
func again(err error) bool { return err != nil && zmq4.AsErrno(err) == zmq4.Errno(syscall.EAGAIN) }
