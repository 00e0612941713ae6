package zmq

import (
	"encoding/binary"
	"syscall"

	zmq4 "github.com/pebbe/zmq4"
)

// deliver hands the messages that wait at st to its callbacks, a burst of them at most, and reports whether there may be
// more.
func (st *stream) deliver() (more bool, err error) {
	for range burst {
		if st.gone.Load() {
			return false, nil
		}
		var f frames
		switch err := f.recv(st.socket); {
		case again(err):
			return false, nil
		case err != nil:
			return false, err
		}
		if m, ok := f.message(); ok {
			st.sub.OnMessage(m)
		} else if st.sub.OnMalformed != nil {
			st.sub.OnMalformed(f.n)
		}
	}
	return true, nil
}

// maxFrames is the longest message that has a meaning: a replay request as a ROUTER sees it has 3 frames, an answer 4.
const maxFrames = 4

// frames is one multipart message. It keeps the first frames and counts them all, so that a hostile peer's thousand
// frames take no memory.
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

// message reads f as [topic, sequence, payload].
func (f *frames) message() (Message, bool) {
	if f.n != 3 || len(f.part[1]) != 8 {
		return Message{}, false
	}
	return Message{Topic: f.part[0], Seq: binary.BigEndian.Uint64(f.part[1]), Payload: f.part[2]}, true
}

// again reports whether err only says that nothing waits.
func again(err error) bool { return err != nil && zmq4.AsErrno(err) == zmq4.Errno(syscall.EAGAIN) }
