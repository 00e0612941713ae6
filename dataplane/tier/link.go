package tier

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// link is a connection to a peer's tier. It belongs to one goroutine at a time.
type link struct {
	conn    net.Conn
	seq     uint64
	body    []byte
	welcome peerWelcome
}

// dialPeer connects and greets.
func dialPeer(ctx context.Context, endpoint string) (*link, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", endpoint)
	if err != nil {
		return nil, fmt.Errorf("cannot reach the tier at %s: %w", endpoint, err)
	}
	l := &link{conn: c}
	body, _, err := l.call(ctx, opPeerHello, binary.LittleEndian.AppendUint32(nil, wireVersion))
	if err == nil {
		l.welcome, err = parsePeerWelcome(append([]byte(nil), body...))
	}
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("cannot greet the tier at %s: %w", endpoint, err)
	}
	return l, nil
}

// call asks, and waits for the answer until ctx ends. Its body aliases the link's. After an error the link is of no use.
func (l *link) call(ctx context.Context, op uint8, body []byte) (answer []byte, seq uint64, err error) {
	if err := l.send(ctx, op, body); err != nil {
		return nil, 0, err
	}
	// A context that is cancelled and has no deadline yet ends the read too.
	stop := context.AfterFunc(ctx, func() { _ = l.conn.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(frameLimit)
	}
	h, err := readFrame(l.conn, &l.body, deadline)
	if err != nil {
		return nil, 0, err
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
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(frameLimit)
	}
	if err := l.conn.SetWriteDeadline(deadline); err != nil {
		return err
	}
	l.seq++
	h := header{length: uint32(len(body)), op: op, seq: l.seq}
	_, err := l.conn.Write(append(h.append(make([]byte, 0, headerBytes+len(body))), body...))
	return err
}

// ended reports whether the peer has closed the connection, or said what nobody asked for.
func (l *link) ended() bool {
	raw, err := l.conn.(syscall.Conn).SyscallConn()
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
