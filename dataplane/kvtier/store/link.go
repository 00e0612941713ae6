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

// link is a connection to a peer's tier. It belongs to one goroutine at a time.
type link struct {
	conn    net.Conn
	raw     net.Conn // below TLS, where there is some
	seq     uint64
	body    []byte
	welcome peerWelcome
}

// dialPeer connects and greets.
func (t *Tier) dialPeer(ctx context.Context, endpoint string) (*link, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", endpoint)
	if err != nil {
		return nil, fmt.Errorf("cannot reach the tier at %s: %w", endpoint, err)
	}
	safe, err := t.meetPeer(ctx, c, endpoint)
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("cannot greet the tier at %s: %w", endpoint, err)
	}
	l := &link{conn: safe, raw: c}
	body, _, err := l.call(ctx, opPeerHello, binary.LittleEndian.AppendUint32(nil, wireVersion))
	if err == nil {
		l.welcome, err = parsePeerWelcome(append([]byte(nil), body...))
	}
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("cannot greet the tier at %s: %w", endpoint, explainTrust(err))
	}
	if err := t.exchange(ctx, l, t.cleared()); err != nil {
		c.Close()
		return nil, fmt.Errorf("cannot tell the tier at %s of clears: %w", endpoint, err)
	}
	return l, nil
}

// deadlineOf is when nobody waits any more.
func deadlineOf(ctx context.Context) time.Time {
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(frameLimit)
	}
	return deadline
}

// cutOff ends reads with a context that is cancelled before its deadline, or has none.
func (l *link) cutOff(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, func() { _ = l.conn.SetReadDeadline(time.Unix(1, 0)) })
}

// fetch asks for pages and reads them to where they belong: into tells for each whether it is there, and gets its memory, or nil for one that is not
// wanted any more. It returns how many have come. After an error the link is of no use, and memory may hold anything.
func (l *link) fetch(ctx context.Context, r *pageRequest, into func(i int, here bool) []byte) (got int, err error) {
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

// call asks, and waits for the answer until ctx ends. Its body aliases the link's. After an error the link is of no use.
func (l *link) call(ctx context.Context, op uint8, body []byte) (answer []byte, seq uint64, err error) {
	if err := l.send(ctx, op, body); err != nil {
		return nil, 0, err
	}
	defer l.cutOff(ctx)()
	deadline := deadlineOf(ctx)
	h, err := readFrame(l.conn, &l.body, deadline, op == opPeerHello)
	if err != nil {
		return nil, 0, err
	}
	if h.status == statusFailed && h.op == opPeerHello {
		return nil, 0, fmt.Errorf("%w: it says: %.300s", ErrTrust, l.body)
	}
	if h.op != op || h.seq != l.seq || h.status != 0 {
		return nil, 0, fmt.Errorf("%w: answer %d to op %d with status %d where %d to %d was due", ErrWire, h.seq, h.op, h.status, l.seq, op)
	}
	return l.body, h.seq, nil
}

// send says what has no answer, or waits for none yet.
func (l *link) send(ctx context.Context, op uint8, body []byte) error {
	if len(body) > maxBody {
		return fmt.Errorf("%w: a message of %d bytes", ErrWire, len(body))
	}
	if err := l.conn.SetWriteDeadline(deadlineOf(ctx)); err != nil {
		return err
	}
	l.seq++
	h := header{length: uint32(len(body)), op: op, seq: l.seq}
	_, err := l.conn.Write(append(h.append(make([]byte, 0, headerBytes+len(body))), body...))
	return err
}

// ended reports whether the peer has closed the connection, or said what nobody asked for.
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
