//go:build !linux

package zmq

import (
	"slices"
	"time"

	zmq4 "github.com/pebbe/zmq4"
)

// readiness tells which of many sockets have messages, through libzmq's own poll: right everywhere, but it looks at each
// socket on every call.
type readiness struct {
	poller *zmq4.Poller
	ids    []int32
}

func newReadiness() (*readiness, error) { return &readiness{poller: zmq4.NewPoller()}, nil }

func (q *readiness) add(s *zmq4.Socket, id int32) error {
	q.poller.Add(s, zmq4.POLLIN)
	q.ids = append(q.ids, id)
	return nil
}

func (q *readiness) remove(_ *zmq4.Socket, id int32) error {
	i := slices.Index(q.ids, id)
	q.ids = slices.Delete(q.ids, i, i+1)
	return q.poller.Remove(i)
}

// wait calls fn with the ids of sockets to read. If block is set and there are none, it waits.
func (q *readiness) wait(block bool, fn func(id int32)) error {
	timeout := time.Duration(0)
	if block {
		timeout = -1
	}
	items, err := q.poller.PollAll(timeout)
	if err != nil {
		return err
	}
	for i, item := range items {
		if item.Events&zmq4.POLLIN != 0 {
			fn(q.ids[i])
		}
	}
	return nil
}

func (q *readiness) close() error { return nil }
