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
	// replaySafe is the number of answers to a request that always arrive: engines leave their
	// ROUTER at ZeroMQ's default high-water mark and drop answers beyond it. SGLang 0.5.23 lost
	// 1,532 of 10,000, and the end marker. A message missing before them is gone.
	replaySafe = 1000
	// replayStall bounds the wait for the next answer of a replay that may have lost its end
	// marker: 25 times the longest time seen between two answers.
	replayStall = 500 * time.Millisecond
)

// Replay requests the messages that a publisher still stores from a sequence number on, calls
// fn once for each in order, and returns their number. An error of fn ends it. Engines answer
// between events, within 100 ms, and Replay waits for a peer that cannot be reached yet: give
// ctx a deadline.
//
// Nothing is read while fn runs, so a long replay takes no more memory than its longest
// message. If that overflows the publisher's queue, the publisher drops answers, and Replay
// requests them again. Messages older than the publisher's buffer are gone: compare the first
// sequence number with the one requested.
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
	next uint64 // Sequence number of the next message, if none is missing.
	n    int    // Answers passed to fn.
	got  int    // Those to the last request.
	conn net.Conn
	d    decoder
}

// run sends requests until the replay is complete. A peer that cannot be reached is tried again
// until its first answer; later the address may belong to another process, and its messages must
// not be mixed in.
func (r *replay) run(endpoint string) error {
	network, address, err := parseEndpoint(endpoint, false)
	if err != nil {
		return err
	}
	round := func() (whole, asked bool, err error) { return r.round(network, address) }
	if curve, err := Curve(); err != nil {
		return err
	} else if curve != "" {
		round = func() (whole, asked bool, err error) { return roundCurve(r, endpoint) }
	}
	for failures := 0; ; failures++ {
		r.got = 0
		whole, asked, err := round()
		switch {
		case whole && err == nil:
			return nil
		case r.ctx.Err() != nil:
			return errors.Join(r.ctx.Err(), err)
		case err == nil: // Answers were lost: request the rest.
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

// round sends one request and reads its answers, on a connection of its own, so that late
// answers to an earlier request cannot be mistaken for its own. It reports whether the replay
// is complete, and whether the request was sent.
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

// answers reads until the end marker, or until an answer is missing that another request can
// bring.
func (r *replay) answers(minor byte) (whole bool, err error) {
	p := publisherConn{conn: r.conn, minor: minor}
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

// take passes an answer to fn. end is true for the last answer of the round.
func (r *replay) take(m Message) (end, whole bool, err error) {
	switch {
	case r.ctx.Err() != nil:
		return true, false, r.ctx.Err()
	case m.Seq == endSeq:
		return true, true, nil
	case m.Seq < r.next: // Of an earlier round.
		return false, false, nil
	case m.Seq > r.next && r.got >= replaySafe:
		return true, false, nil
	}
	if err := r.fn(m); err != nil {
		return true, false, err
	}
	r.next = m.Seq + 1
	r.n++
	r.got++
	return false, false, nil
}

// read waits for more bytes, without a limit unless the end marker may be lost.
func (r *replay) read() (lost bool, err error) {
	if r.got >= replaySafe {
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

// answer reads frames as an answer to a replay request: ["", topic, sequence, payload], or
// without the topic as from SGLang up to 0.5.15.
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
