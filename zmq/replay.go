package zmq

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	zmq4 "github.com/pebbe/zmq4"
)

// replaySlice is how long a replay waits before it looks at its context again.
const replaySlice = 20 * time.Millisecond

// Replay asks the publisher's replay endpoint for what it still keeps from sequence from on, calls fn for each message in
// order and returns how many there were. An error of fn ends it. Engines look at requests between events, every 100 ms
// at worst, and a peer that is not there is waited for: give ctx a deadline.
//
// What is older than the publisher's buffer is not there, and a publisher whose queue is full drops answers: compare the
// sequences with what was asked for.
func Replay(ctx context.Context, endpoint string, from uint64, fn func(Message) error) (n int, err error) {
	n, err = replay(ctx, endpoint, from, fn)
	if err != nil {
		return n, fmt.Errorf("cannot replay %q from %d: %w", endpoint, from, err)
	}
	return n, nil
}

func replay(ctx context.Context, endpoint string, from uint64, fn func(Message) error) (n int, err error) {
	c, err := newContext()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, c.Term()) }()
	s, err := c.NewSocket(zmq4.DEALER)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	err = each(
		func() error { return prepare(s, endpoint) },
		func() error { return s.SetRcvhwm(0) }, // The publisher drops answers that we queue too slowly.
		func() error { return s.Connect(endpoint) },
		func() error { _, err := s.SendMessage("", putSeq(from)); return err },
	)
	if err != nil {
		return 0, err
	}
	return answers(ctx, s, fn)
}

// answers reads until the end marker.
func answers(ctx context.Context, s *zmq4.Socket, fn func(Message) error) (n int, err error) {
	p := zmq4.NewPoller()
	p.Add(s, zmq4.POLLIN)
	for {
		if err := ctx.Err(); err != nil {
			return n, err
		}
		var f frames
		err := f.recv(s)
		if again(err) {
			if _, err := p.Poll(replaySlice); err != nil {
				return n, err
			}
			continue
		}
		if err != nil {
			return n, err
		}
		m, ok := f.answer()
		switch {
		case !ok:
			return n, fmt.Errorf("%d frames: %w", f.n, ErrMalformed)
		case m.Seq == endSeq:
			return n, nil
		}
		if err := fn(m); err != nil {
			return n, err
		}
		n++
	}
}

// answer reads f as ["", topic, sequence, payload], or without the topic as SGLang up to 0.5.15 sends it.
func (f *frames) answer() (m Message, ok bool) {
	part := f.part[:min(f.n, maxFrames)]
	switch {
	case f.n != 3 && f.n != 4, len(part[0]) != 0:
		return m, false
	case f.n == 4:
		m.Topic = part[1]
	}
	seq := part[f.n-2]
	if len(seq) != 8 {
		return m, false
	}
	m.Seq, m.Payload = binary.BigEndian.Uint64(seq), part[f.n-1]
	return m, true
}
