package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// link is a connection to a peer's store. It belongs to one goroutine at a time.
type link struct {
	conn    net.Conn
	raw     net.Conn // below TLS, or conn
	seq     uint64
	body    []byte
	welcome welcome
}

// dial connects to a peer, greets it and exchanges clears.
func (c *peerClient) dial(ctx context.Context, endpoint string) (*link, error) {
	var d net.Dialer
	raw, err := d.DialContext(ctx, "tcp", endpoint)
	if err != nil {
		return nil, fmt.Errorf("cannot reach the KV tier at %s: %w", endpoint, err)
	}
	secured, err := c.security.connect(ctx, raw, endpoint)
	if err != nil {
		raw.Close()
		return nil, fmt.Errorf("cannot greet the KV tier at %s: %w", endpoint, err)
	}
	l := &link{conn: secured, raw: raw}
	body, _, err := l.call(ctx, opPeerHello, binary.LittleEndian.AppendUint32(nil, wireVersion))
	if err == nil {
		l.welcome, err = parseWelcome(append([]byte(nil), body...))
	}
	if err != nil {
		raw.Close()
		return nil, fmt.Errorf("cannot greet the KV tier at %s: %w", endpoint, explainHandshake(err))
	}
	if err := c.exchange(ctx, l, c.pages.adopt(nil)); err != nil {
		raw.Close()
		return nil, fmt.Errorf("cannot exchange clears with the KV tier at %s: %w", endpoint, err)
	}
	return l, nil
}

// exchange tells a peer of the clears of this store, and carries out those of the peer.
func (c *peerClient) exchange(ctx context.Context, l *link, cleared clears) error {
	body, _, err := l.call(ctx, opCleared, cleared.encode())
	if err != nil {
		return err
	}
	theirs, err := parseClears(body)
	if err != nil {
		return err
	}
	c.pages.adopt(theirs)
	return nil
}

// deadlineOf returns the deadline of ctx, or one after frameTimeout.
func deadlineOf(ctx context.Context) time.Time {
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(frameTimeout)
	}
	return deadline
}

// cutOff ends reads when ctx is cancelled before its deadline.
func (l *link) cutOff(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, func() { _ = l.conn.SetReadDeadline(time.Unix(1, 0)) })
}

// fetch reads pages into the memory that into returns for each; nil skips the page. It returns the
// number of pages read. After an error the link must be closed, and the memory may hold anything.
func (l *link) fetch(ctx context.Context, r *pageRequest, into func(i int, present bool) []byte) (got int, err error) {
	if err := l.send(ctx, opFetch, r.encode()); err != nil {
		return 0, err
	}
	defer l.cutOff(ctx)()
	if err := l.conn.SetReadDeadline(deadlineOf(ctx)); err != nil {
		return 0, err
	}
	front := make([]byte, headerBytes+4+len(r.hashes))
	if _, err := io.ReadFull(l.conn, front); err != nil {
		return 0, err
	}
	h, err := parseHeader(front)
	if err != nil {
		return 0, err
	}
	flags := front[headerBytes+4:]
	length := 4 + len(flags) + int(r.bytes)*bytes.Count(flags, []byte{1})
	if h.op != opFetch || h.seq != l.seq || h.status != 0 || int(h.length) != length || binary.LittleEndian.Uint32(front[headerBytes:]) != uint32(len(flags)) {
		return 0, fmt.Errorf("%w: %d bytes in answer %d to op %d for %d pages", ErrWire, h.length, h.seq, h.op, len(flags))
	}
	for i, flag := range flags {
		dst := into(i, flag == 1)
		switch {
		case flag != 1:
			continue
		case dst != nil:
			got++
			_, err = io.ReadFull(l.conn, dst)
		default:
			_, err = io.CopyN(io.Discard, l.conn, int64(r.bytes))
		}
		if err != nil {
			return got, err
		}
	}
	return got, nil
}

// call sends a question and waits for the answer, which aliases the link's buffer. After an error
// the link must be closed.
func (l *link) call(ctx context.Context, op uint8, body []byte) (answer []byte, seq uint64, err error) {
	if err := l.send(ctx, op, body); err != nil {
		return nil, 0, err
	}
	defer l.cutOff(ctx)()
	h, err := readFrame(l.conn, &l.body, deadlineOf(ctx), op == opPeerHello)
	if err != nil {
		return nil, 0, err
	}
	if h.status == statusFailed && h.op == opPeerHello {
		return nil, 0, fmt.Errorf("%w: the peer says: %.300s", ErrUntrusted, l.body)
	}
	if h.op != op || h.seq != l.seq || h.status != 0 {
		return nil, 0, fmt.Errorf("%w: answer %d to op %d with status %d, want answer %d to op %d", ErrWire, h.seq, h.op, h.status, l.seq, op)
	}
	return l.body, h.seq, nil
}

// send sends a message and does not wait for an answer.
func (l *link) send(ctx context.Context, op uint8, body []byte) error {
	if len(body) > maxBody {
		return fmt.Errorf("%w: a message of %d bytes", ErrWire, len(body))
	}
	l.seq++
	return writeFrame(l.conn, deadlineOf(ctx), header{op: op, seq: l.seq}, body)
}

// ended reports whether the peer has closed the connection, or sent a message without a question.
func (l *link) ended() bool {
	raw, err := l.raw.(syscall.Conn).SyscallConn()
	if err != nil {
		return true
	}
	var one [1]byte
	var peeked error
	err = raw.Control(func(fd uintptr) {
		_, _, peeked = unix.Recvfrom(int(fd), one[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
	})
	return err != nil || !errors.Is(peeked, unix.EAGAIN)
}

func (l *link) close() { l.conn.Close() }
