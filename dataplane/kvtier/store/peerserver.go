package store

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/warmpath/warmpath/dataplane/tlsconfig"
)

// maxPeers bounds the connections of other sidecars: two for each.
const maxPeers = 1024

// peerServer gives pages to other sidecars. It never writes to the memory on their behalf.
type peerServer struct {
	tier *Tier
	all  sync.WaitGroup
	mu   sync.Mutex
	open map[net.Conn]struct{} // guarded by mu
	stop bool                  // guarded by mu
}

// run serves a listener until ctx ends and all connections have.
func (s *peerServer) run(ctx context.Context, l net.Listener) error {
	defer s.all.Wait()
	defer s.closeAll()
	quit := context.AfterFunc(ctx, func() { l.Close() })
	defer quit()
	defer l.Close()
	for {
		c, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("cannot accept peers of the KV tier: %w", err)
		}
		s.mu.Lock()
		full := s.stop || len(s.open) >= maxPeers
		if !full {
			s.open[c] = struct{}{}
			s.all.Add(1)
		}
		s.mu.Unlock()
		if full {
			c.Close()
			continue
		}
		go s.serve(ctx, c)
	}
}

func (s *peerServer) closeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stop = true
	for c := range s.open {
		c.Close()
	}
}

// serve owns a connection, and all that its peer has pinned through it.
func (s *peerServer) serve(ctx context.Context, c net.Conn) {
	defer s.all.Done()
	defer s.forget(c)
	safe, err := s.tier.greetPeer(ctx, c)
	if err != nil {
		s.tier.complain("a peer is refused by the KV tier", hostOf(c), err)
		return
	}
	n := &peerSession{tier: s.tier, conn: safe, pins: map[uint64]*lease{}}
	if s.tier.enter() == nil {
		err := n.run()
		for _, l := range n.pins {
			s.tier.release(l)
		}
		s.tier.leave()
		switch {
		case errors.Is(err, ErrTrust):
			s.tier.complain("a peer is refused by the KV tier", hostOf(c), err)
		case err != nil:
			s.tier.counts.refused.Add(1)
			s.tier.log.Warn("a peer's connection to the KV tier failed", "peer", c.RemoteAddr(), "error", err)
		}
	}
}

func (s *peerServer) forget(c net.Conn) {
	c.Close()
	s.mu.Lock()
	delete(s.open, c)
	s.mu.Unlock()
}

// peerSession is one connection of a peer; all of it belongs to the connection's goroutine.
type peerSession struct {
	tier    *Tier
	conn    net.Conn
	greeted bool
	body    []byte
	out     []byte
	pages   *bufio.Writer // made for the first fetch
	offsets []uint64
	pins    map[uint64]*lease
}

// run answers until the peer leaves. Only a peer that breaks the protocol is an error.
func (n *peerSession) run() error {
	for {
		var deadline time.Time
		if !n.greeted {
			deadline = time.Now().Add(frameLimit) // a peer greets at once; later it may have nothing to ask for hours
		}
		h, err := readFrame(n.conn, &n.body, deadline, !n.greeted)
		if err == nil {
			err = n.answer(h)
		}
		switch {
		case err == nil:
		case errors.Is(err, ErrWire), errors.Is(err, ErrTrust):
			return err
		default:
			return nil
		}
	}
}

// readFrame reads a message into body, which grows as needed. Once a message has begun the rest must come within frameLimit. The first one of a connection
// shows whether the other side speaks this protocol or TLS.
func readFrame(c net.Conn, body *[]byte, deadline time.Time, first bool) (header, error) {
	var raw [headerBytes]byte
	if err := c.SetReadDeadline(deadline); err != nil {
		return header{}, err
	}
	if _, err := io.ReadFull(c, raw[:1]); err != nil {
		return header{}, err
	}
	if deadline.IsZero() {
		if err := c.SetReadDeadline(time.Now().Add(frameLimit)); err != nil {
			return header{}, err
		}
	}
	if _, err := io.ReadFull(c, raw[1:]); err != nil {
		return header{}, err
	}
	if first && tlsconfig.IsRecord(raw[:]) { // of a greeting's length it would be ten thousand times too much
		return header{}, fmt.Errorf("%w: %s: it speaks TLS", ErrTrust, sayPlain)
	}
	h, err := parseHeader(raw[:])
	if err != nil {
		return h, err
	}
	if cap(*body) < int(h.length) {
		*body = make([]byte, h.length)
	}
	*body = (*body)[:h.length]
	_, err = io.ReadFull(c, *body)
	return h, err
}

func (n *peerSession) send(h header, body []byte) error {
	if err := n.conn.SetWriteDeadline(time.Now().Add(frameLimit)); err != nil {
		return err
	}
	answer := header{length: uint32(len(body)), op: h.op, seq: h.seq}
	_, err := n.conn.Write(append(answer.append(make([]byte, 0, headerBytes+len(body))), body...))
	return err
}

// fetchBuffer makes one write of small pages; large ones go past it, as they lie in the memory.
const fetchBuffer = 64 << 10

func (n *peerSession) answer(h header) error {
	t := n.tier
	if !n.greeted && h.op != opPeerHello {
		return fmt.Errorf("%w: op %d of a peer before its greeting", ErrWire, h.op)
	}
	switch h.op {
	case opPeerHello:
		n.greeted = true
		if len(n.body) != 4 || binary.LittleEndian.Uint32(n.body) != wireVersion {
			return fmt.Errorf("%w: a peer of another version", ErrWire)
		}
		return n.send(h, t.welcome().encode())
	case opUnpin:
		if len(n.body) != 8 {
			return fmt.Errorf("%w: unpin of %d bytes", ErrWire, len(n.body))
		}
		seq := binary.LittleEndian.Uint64(n.body)
		t.release(n.pins[seq])
		delete(n.pins, seq)
		return nil
	case opCleared:
		theirs, err := parseClears(n.body)
		if err != nil {
			return err
		}
		return n.send(h, t.adopt(theirs).encode())
	case opHas, opPin, opFetch, opHottest:
	default:
		return fmt.Errorf("%w: unknown op %d of a peer", ErrWire, h.op)
	}
	r, err := parsePageRequest(n.body)
	if err != nil {
		return err
	}
	ns, known := t.known(&r)
	if !known {
		ns = none32 // a model that nobody uses here, or of another clear: as if it had no pages
	}
	switch h.op {
	case opHas:
		count := t.look(ns, r.hashes)
		return n.send(h, binary.LittleEndian.AppendUint32(nil, uint32(count)))
	case opHottest:
		var pages []followed
		if known {
			pages = t.hottest(ns, int(min(r.lease, maxHottest)))
		}
		return n.send(h, appendHottest(nil, pages))
	case opPin:
		return n.pin(h, ns, r)
	}
	return n.fetch(h, ns, r)
}

// pin tells where pages lie, and keeps them there for the peer to read by NIXL.
func (n *peerSession) pin(h header, ns uint32, r pageRequest) error {
	if len(n.pins) >= maxGets {
		return fmt.Errorf("%w: %d pins that were not released", ErrWire, len(n.pins))
	}
	offsets, l := n.tier.get(n.offsets[:0], ns, r.hashes, time.Duration(r.lease)*time.Millisecond)
	n.offsets = offsets
	if l != nil {
		if _, twice := n.pins[h.seq]; twice {
			n.tier.release(l)
			return fmt.Errorf("%w: sequence %d twice", ErrWire, h.seq)
		}
		n.pins[h.seq] = l
		n.tier.counts.served.Add(int64(len(l.pages)))
	}
	n.out = binary.LittleEndian.AppendUint32(n.out[:0], uint32(len(offsets)))
	for _, o := range offsets {
		n.out = binary.LittleEndian.AppendUint64(n.out, o)
	}
	return n.send(h, n.out)
}

// fetch sends pages themselves, for peers without NIXL.
func (n *peerSession) fetch(h header, ns uint32, r pageRequest) error {
	most := (maxBody - 4) / (int(r.bytes) + 1)
	if len(r.hashes) > max(1, most) {
		return fmt.Errorf("%w: fetch of %d pages, and %d fit an answer", ErrWire, len(r.hashes), most)
	}
	offsets, l := n.tier.get(n.offsets[:0], ns, r.hashes, maxLease)
	defer n.tier.release(l)
	n.offsets = offsets
	n.out = binary.LittleEndian.AppendUint32(n.out[:0], uint32(len(offsets)))
	found := 0
	for _, o := range offsets {
		here := byte(0)
		if o != absent {
			here = 1
			found++
		}
		n.out = append(n.out, here)
	}
	if err := n.conn.SetWriteDeadline(time.Now().Add(frameLimit)); err != nil { // sooner than the lease's end
		return err
	}
	if n.pages == nil {
		n.pages = bufio.NewWriterSize(n.conn, fetchBuffer)
	}
	answer := header{length: uint32(len(n.out) + found*int(r.bytes)), op: h.op, seq: h.seq}
	_, _ = n.pages.Write(answer.append(nil)) // its first error is that of Flush
	_, _ = n.pages.Write(n.out)
	for _, o := range offsets {
		if o != absent {
			_, _ = n.pages.Write(n.tier.arena.at(int64(o), int(r.bytes)))
		}
	}
	n.tier.counts.served.Add(int64(found))
	return n.pages.Flush()
}
