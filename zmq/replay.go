package zmq

import (
	"context"
	"errors"
	"fmt"
	"time"

	zmq4 "github.com/pebbe/zmq4"
)

const (
	// replaySlice is how long a replay waits before it looks at its context again.
	replaySlice = 20 * time.Millisecond
	// replaySafe is how many answers come through for certain: engines leave their ROUTER at ZeroMQ's default high-water
	// mark, and what they send beyond it is dropped. SGLang 0.5.23 lost 1,532 of 10,000, and the end marker.
	replaySafe = 1000
	// replayStall is how long a replay that may have lost its end marker waits for more: 25 times what the slowest one
	// seen took between two answers.
	replayStall = 500 * time.Millisecond
)

// Replay asks the publisher's replay endpoint for what it still keeps from sequence from on, calls fn for each message in
// order, once, and returns how many there were. An error of fn ends it. Engines look at requests between events, every
// 100 ms at worst, and a peer that is not there is waited for: give ctx a deadline.
//
// A publisher drops answers where a long replay overflows its queue; Replay asks again for those. What is older than the
// publisher's buffer cannot be had: compare the sequences with what was asked for.
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
	next := from
	for {
		r := round{next: next, fn: fn}
		whole, err := r.run(ctx, c, endpoint)
		n += r.n
		if whole || err != nil {
			return n, err
		}
		next = r.next
	}
}

// round is one request and its answers. Each has a socket of its own, so that late answers to an earlier request cannot
// be taken for its own.
type round struct {
	next uint64 // Sequence that comes next if nothing is missing.
	n    int    // Answers taken.
	fn   func(Message) error
}

// run reports whether the replay is whole; otherwise the rest must be asked for from next on.
func (r *round) run(ctx context.Context, c *zmq4.Context, endpoint string) (whole bool, err error) {
	s, err := c.NewSocket(zmq4.DEALER)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	err = each(
		func() error { return prepare(s, endpoint) },
		func() error { return s.SetRcvhwm(0) }, // No reason to push back on a publisher that then drops.
		func() error { return s.Connect(endpoint) },
		func() error { _, err := s.SendMessage("", putSeq(r.next)); return err },
	)
	if err != nil {
		return false, err
	}
	return r.answers(ctx, s)
}

// answers reads until the end marker, or until something is missing that another request can bring.
func (r *round) answers(ctx context.Context, s *zmq4.Socket) (whole bool, err error) {
	p := zmq4.NewPoller()
	p.Add(s, zmq4.POLLIN)
	idle := time.Duration(0)
	for {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		var f frames
		err := f.recv(s)
		if again(err) {
			if idle += replaySlice; r.n >= replaySafe && idle > replayStall {
				return false, nil
			}
			if _, err := p.Poll(replaySlice); err != nil {
				return false, err
			}
			continue
		}
		if err != nil {
			return false, err
		}
		idle = 0
		m, ok := f.answer()
		switch {
		case !ok:
			return false, fmt.Errorf("%d frames: %w", f.n, ErrMalformed)
		case m.Seq == endSeq:
			return true, nil
		case m.Seq < r.next:
			continue // Taken in an earlier round.
		case m.Seq > r.next && r.n >= replaySafe:
			return false, nil
		}
		if err := r.fn(m); err != nil {
			return false, err
		}
		r.next = m.Seq + 1
		r.n++
	}
}
