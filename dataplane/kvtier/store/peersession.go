package store

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"github.com/warmpath/warmpath/dataplane/tlsconfig"
)

// peerSession is one connection of a peer. It belongs to the goroutine of the connection.
type peerSession struct {
	server  *peerServer
	conn    net.Conn
	greeted bool
	body    []byte
	out     []byte
	pages   *bufio.Writer // made for the first fetch
	offsets []uint64
	pins    map[uint64]*lease
}

// run answers until the peer leaves. It fails only where the peer breaks the protocol.
func (n *peerSession) run() error {
	for {
		var deadline time.Time
		if !n.greeted {
			// A peer greets at once, and may then be idle for hours.
			deadline = time.Now().Add(frameTimeout)
		}
		h, err := readFrame(n.conn, &n.body, deadline, !n.greeted)
		if err == nil {
			err = n.answer(h)
		}
		switch {
		case err == nil:
		case errors.Is(err, ErrWire), errors.Is(err, ErrUntrusted):
			return err
		default:
			return nil
		}
	}
}

// readFrame reads a message into body. The rest of a message that has begun must come within
// frameTimeout. The first message of a connection shows whether the other side speaks TLS.
func readFrame(c net.Conn, body *[]byte, deadline time.Time, first bool) (header, error) {
	var raw [headerBytes]byte
	if err := c.SetReadDeadline(deadline); err != nil {
		return header{}, err
	}
	if _, err := io.ReadFull(c, raw[:1]); err != nil {
		return header{}, err
	}
	if deadline.IsZero() {
		if err := c.SetReadDeadline(time.Now().Add(frameTimeout)); err != nil {
			return header{}, err
		}
	}
	if _, err := io.ReadFull(c, raw[1:]); err != nil {
		return header{}, err
	}
	if first && tlsconfig.IsRecord(raw[:]) {
		// As the length of a greeting, ten thousand times too long.
		return header{}, fmt.Errorf("%w: %s: the peer speaks TLS", ErrUntrusted, advicePlain)
	}
	h, err := parseHeader(raw[:])
	if err != nil {
		return h, err
	}
	*body = slices.Grow((*body)[:0], int(h.length))[:h.length]
	_, err = io.ReadFull(c, *body)
	return h, err
}

func (n *peerSession) send(h header, body []byte) error {
	return writeFrame(n.conn, time.Now().Add(frameTimeout), header{op: h.op, seq: h.seq}, body)
}

// answer does the work of one message.
func (n *peerSession) answer(h header) error {
	s := n.server
	if !n.greeted && h.op != opPeerHello {
		return fmt.Errorf("%w: op %d of a peer before its hello", ErrWire, h.op)
	}
	switch h.op {
	case opPeerHello:
		n.greeted = true
		if len(n.body) != 4 || binary.LittleEndian.Uint32(n.body) != wireVersion {
			return fmt.Errorf("%w: a peer of another version", ErrWire)
		}
		return n.send(h, s.nixl.welcome().encode())
	case opUnpin:
		if len(n.body) != 8 {
			return fmt.Errorf("%w: unpin of %d bytes", ErrWire, len(n.body))
		}
		seq := binary.LittleEndian.Uint64(n.body)
		s.leases.release(n.pins[seq])
		delete(n.pins, seq)
		return nil
	case opCleared:
		theirs, err := parseClears(n.body)
		if err != nil {
			return err
		}
		return n.send(h, s.pages.adopt(theirs).encode())
	case opHas, opPin, opFetch:
	default:
		return fmt.Errorf("%w: unknown op %d of a peer", ErrWire, h.op)
	}
	r, err := parsePageRequest(n.body)
	if err != nil {
		return err
	}
	// A namespace that engines here do not use, or of another clear, is answered as an empty one.
	ns := s.pages.requested(&r)
	switch h.op {
	case opHas:
		count := s.pages.holds(ns, r.hashes)
		return n.send(h, binary.LittleEndian.AppendUint32(nil, uint32(count)))
	case opPin:
		return n.pin(h, ns, r)
	}
	return n.fetch(h, ns, r)
}

// pin pins pages for a NIXL read of the peer, and tells their offsets.
func (n *peerSession) pin(h header, ns uint32, r pageRequest) error {
	if len(n.pins) >= maxReads {
		return fmt.Errorf("%w: %d pins without unpin", ErrWire, len(n.pins))
	}
	s := n.server
	offsets, l := s.leases.get(n.offsets[:0], ns, r.hashes, time.Duration(r.lease)*time.Millisecond)
	n.offsets = offsets
	if l != nil {
		if _, twice := n.pins[h.seq]; twice {
			s.leases.release(l)
			return fmt.Errorf("%w: sequence %d twice", ErrWire, h.seq)
		}
		n.pins[h.seq] = l
		s.counts.add(func(c *Stats) { c.Served += int64(len(l.entries)) })
	}
	n.out = binary.LittleEndian.AppendUint32(n.out[:0], uint32(len(offsets)))
	for _, o := range offsets {
		n.out = binary.LittleEndian.AppendUint64(n.out, o)
	}
	return n.send(h, n.out)
}

// fetchBuffer joins small pages into one write; large ones are written from the arena.
const fetchBuffer = 64 << 10

// fetch sends pages to a peer without NIXL.
func (n *peerSession) fetch(h header, ns uint32, r pageRequest) error {
	most := (maxBody - 4) / (int(r.bytes) + 1)
	if len(r.hashes) > max(1, most) {
		return fmt.Errorf("%w: fetch of %d pages, and %d fit an answer", ErrWire, len(r.hashes), most)
	}
	s := n.server
	offsets, l := s.leases.get(n.offsets[:0], ns, r.hashes, maxLease)
	defer s.leases.release(l)
	n.offsets = offsets
	n.out = binary.LittleEndian.AppendUint32(n.out[:0], uint32(len(offsets)))
	found := 0
	for _, o := range offsets {
		present := byte(0)
		if o != absent {
			present = 1
			found++
		}
		n.out = append(n.out, present)
	}
	if err := n.conn.SetWriteDeadline(time.Now().Add(frameTimeout)); err != nil {
		// Before the lease ends.
		return err
	}
	if n.pages == nil {
		n.pages = bufio.NewWriterSize(n.conn, fetchBuffer)
	}
	answer := header{length: uint32(len(n.out) + found*int(r.bytes)), op: h.op, seq: h.seq}
	_, _ = n.pages.Write(answer.append(nil)) // Flush returns the first error
	_, _ = n.pages.Write(n.out)
	for _, o := range offsets {
		if o != absent {
			_, _ = n.pages.Write(s.pages.arena.at(int64(o), int(r.bytes)))
		}
	}
	s.counts.add(func(c *Stats) { c.Served += int64(found) })
	return n.pages.Flush()
}
