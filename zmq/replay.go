package zmq

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"time"
)

const (
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
// While fn runs nothing is read, so that a long replay takes no more memory than its longest message. A publisher drops answers
// where that overflows its queue; Replay asks again for those. What is older than the publisher's buffer cannot be had: compare
// the sequences with what was asked for.
func Replay(ctx context.Context, endpoint string, from uint64, fn func(Message) error) (n int, err error) {
	r := replay{ctx: ctx, next: from, fn: fn}
	if err := r.run(endpoint); err != nil {
		return r.n, fmt.Errorf("cannot replay %q from %d: %w", endpoint, from, err)
	}
	return r.n, nil
}

// replay is a running Replay.
type replay struct {
	ctx  context.Context
	fn   func(Message) error
	next uint64 // Sequence that comes next if nothing is missing.
	n    int    // Answers taken.
	conn net.Conn
	d    decoder
}

// run asks until the replay is whole. A peer that cannot be reached is tried again as long as nothing has come from it;
// later another process would be at its place, whose messages must not be mixed with those that came.
func (r *replay) run(endpoint string) error {
	network, address, err := parseEndpoint(endpoint, toConnect)
	if err != nil {
		return err
	}
	round := func() (whole, asked bool, err error) { return r.round(network, address) }
	if curve, err := Curve(); err != nil {
		return err
	} else if curve != "" {
		round = func() (whole, asked bool, err error) { return r.roundCurve(endpoint) }
	}
	for failures := 0; ; failures++ {
		whole, asked, err := round()
		switch {
		case whole && err == nil:
			return nil
		case r.ctx.Err() != nil:
			return errors.Join(r.ctx.Err(), err)
		case err == nil: // Answers were lost: the rest must be asked for.
			failures = -1
			continue
		case asked || r.n > 0 || errors.Is(err, ErrProtocol):
			return err
		}
		if sleep(r.ctx, delay(failures, err)); r.ctx.Err() != nil {
			return errors.Join(r.ctx.Err(), err)
		}
	}
}

// round is one request and its answers. Each has a connection of its own, so that late answers to an earlier request cannot
// be taken for its own. It reports whether the replay is whole, and whether the publisher was asked.
func (r *replay) round(network, address string) (whole, asked bool, err error) {
	dialer := net.Dialer{Timeout: connectTimeout, KeepAliveConfig: keepaliveConfig, Control: control}
	if r.conn, err = dialer.DialContext(r.ctx, network, address); err != nil {
		return false, false, err
	}
	release := closeWhenDone(r.ctx, r.conn)
	r.d = decoder{answers: true}
	defer func() {
		release()
		r.d.free()
	}()
	request := func(byte) []byte {
		return appendFrame(appendFrame(nil, flagMore), 0, string(binary.BigEndian.AppendUint64(nil, r.next)))
	}
	minor, err := handshake(r.conn, &r.d, dealerRole, request, time.Now())
	if err != nil {
		return false, false, err
	}
	whole, err = r.answers(minor)
	return whole, true, err
}

// answers reads until the end marker, or until something is missing that another request can bring.
func (r *replay) answers(minor byte) (whole bool, err error) {
	p := peer{conn: r.conn, minor: minor}
	for {
		it, err := r.d.next()
		switch {
		case err != nil:
			return false, err
		case it == itemMalformed:
			return false, fmt.Errorf("%d frames: %w", r.d.malformed, ErrMalformed)
		case it == itemCommand:
			if err := p.command(r.d.command); err != nil {
				return false, err
			}
		case it == itemMessage:
			if end, whole, err := r.take(r.d.msg); end || err != nil {
				return whole, err
			}
		default:
			if lost, err := r.read(); lost || err != nil {
				return false, err
			}
		}
	}
}

// take hands an answer over. end says that it was the last of this round.
func (r *replay) take(m Message) (end, whole bool, err error) {
	switch {
	case r.ctx.Err() != nil:
		return true, false, r.ctx.Err()
	case m.Seq == endSeq:
		return true, true, nil
	case m.Seq < r.next: // Taken in an earlier round.
		return false, false, nil
	case m.Seq > r.next && r.n >= replaySafe:
		return true, false, nil
	}
	if err := r.fn(m); err != nil {
		return true, false, err
	}
	r.next = m.Seq + 1
	r.n++
	return false, false, nil
}

// read waits for more bytes, for as long as it takes unless the end marker may be lost.
func (r *replay) read() (lost bool, err error) {
	if r.n >= replaySafe {
		if err := r.conn.SetReadDeadline(time.Now().Add(replayStall)); err != nil {
			return false, err
		}
	}
	got, err := r.conn.Read(r.d.room())
	r.d.w += got
	switch {
	case got > 0:
		return false, nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return true, nil
	default:
		return false, errors.Join(errHungUp, err)
	}
}

// answer reads parts as an answer to a replay request: ["", topic, sequence, payload], or without the topic as SGLang up to
// 0.5.15 sends it.
func (d *decoder) answer(at []byte, frames int) item {
	part := func(i int) []byte { return at[d.part[i][0]:d.part[i][1]] }
	d.malformed = frames
	if frames < liveFrames || frames > answerFrames || len(part(0)) != 0 || len(part(frames-2)) != 8 {
		return itemMalformed
	}
	d.msg = Message{Seq: binary.BigEndian.Uint64(part(frames - 2)), Payload: part(frames - 1)}
	if frames == answerFrames {
		d.msg.Topic = part(1)
	}
	return itemMessage
}
