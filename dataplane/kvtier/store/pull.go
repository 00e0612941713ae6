package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/warmpath/warmpath/nixl"
)

// errGone says that a peer left during a pull.
var errGone = errors.New("store: the peer is gone")

// pull does one pull. Absent pages get slots, are read into them, and become readable together.
func (p *peer) pull(ctx context.Context, q *pull) {
	c := p.client
	defer c.incoming.end(q)
	if c.pages.enter() != nil {
		return
	}
	defer c.pages.leave()
	ctx, cancel := context.WithTimeout(ctx, c.cfg.pullTimeout)
	defer cancel()
	// The request has the stamp of the namespace of the slots. Slots of a namespace that is
	// discarded meanwhile never become readable.
	space, ok := c.pages.request(q.ns)
	if !ok {
		return
	}
	began := time.Now()
	slots, _ := c.pages.reserve(q.ns, q.hashes, q.parent, nil, q.hinted)
	got, err := p.fill(ctx, q, space, slots)
	if err != nil {
		c.counts.add(func(s *Stats) { s.PullFailures++ })
		c.cfg.Log.Warn("cannot pull KV pages from a peer", "peer", p.Name, "pages", len(q.hashes), "error", err)
		p.dropPull(err)
		return
	}
	bytes, took := got*int(space.bytes), time.Since(began)
	c.counts.add(func(s *Stats) {
		s.Pulled += int64(got)
		s.PulledBytes += int64(bytes)
		s.PullSeconds += took.Seconds()
		if q.hinted {
			s.Hints.Pulled += int64(got)
		}
	})
	p.rate.add(bytes, took)
}

// fill reads the pages and commits or abandons the slots. Slots that NIXL may still write to are
// abandoned once it cannot.
func (p *peer) fill(ctx context.Context, q *pull, r pageRequest, slots *batch) (got int, err error) {
	var busy *nixl.Transfer
	if err = p.dialPull(ctx); err == nil {
		if p.remote != nil {
			if got, busy, err = p.readNIXL(ctx, q, r, slots); err == nil {
				p.client.counts.add(func(s *Stats) { s.PulledNIXL += int64(got) })
			}
		} else {
			got, err = p.readTCP(ctx, q, r, slots)
		}
	}
	switch {
	case err == nil:
		slots.commit()
	case busy == nil:
		slots.abandon()
	default:
		p.client.quarantine(slots, busy)
	}
	return got, err
}

// dialPull makes the connection for pulls, and loads the peer's metadata where both sides have
// NIXL.
func (p *peer) dialPull(ctx context.Context) error {
	if p.pullLink != nil && p.pullLink.ended() { // the peer was restarted
		p.dropPull(nil)
	}
	if p.pullLink == nil {
		l, err := p.client.dial(ctx, p.Endpoint)
		if err != nil {
			return err
		}
		p.pullLink = l
	}
	w, agent := p.pullLink.welcome, p.client.nixl.reader()
	loaded := p.remote != nil && p.loaded == w.instance && p.remote.Err() == nil
	if agent == nil || len(w.metadata) == 0 || !nixlReaches(p.client.nixl.welcome(), w) || loaded {
		return nil
	}
	if p.remote != nil {
		p.remote.Close()
		p.remote = nil
	}
	remote, err := agent.Load(w.metadata)
	if err != nil {
		p.client.cfg.Log.Warn("cannot use NIXL to a peer, and pull by TCP", "peer", p.Name, "error", err)
		return nil
	}
	p.remote, p.loaded = remote, w.instance
	return nil
}

// readNIXL pulls by NIXL: the peer pins the pages and tells their offsets, which is all its CPU
// does. busy is a transfer that may still write.
func (p *peer) readNIXL(ctx context.Context, q *pull, r pageRequest, slots *batch) (got int, busy *nixl.Transfer, err error) {
	memory, err := p.remote.Memory(p.pullLink.welcome.memory)
	if err != nil {
		return 0, nil, err
	}
	bytes := uint64(r.bytes)
	r.lease, r.hashes = uint32(2*p.client.cfg.pullTimeout.Milliseconds()), q.hashes
	body, seq, err := p.pullLink.call(ctx, opPin, r.encode())
	if err != nil {
		return 0, nil, err
	}
	offsets, err := parseOffsets(body, len(q.hashes))
	if err != nil {
		return 0, nil, err
	}
	var pieces []nixl.Piece
	for i, o := range offsets {
		switch {
		case o == absent:
			slots.drop(i)
		case o > memory.Len || memory.Len-o < bytes:
			return 0, nil, fmt.Errorf("%w: a page at %d of %d bytes", ErrWire, o, memory.Len)
		case slots.entries[i] != none:
			pieces = append(pieces, nixl.Piece{Local: uint64(slots.offsets[i]), Remote: o, Len: bytes})
		}
	}
	if len(pieces) > 0 {
		// The peer's pins outlast ctx: a read within it reads the right pages.
		transfer, err := p.remote.Transfer(ctx, nixl.Read, p.client.nixl.local, memory, pieces)
		if err != nil {
			return 0, transfer, err
		}
		// A peer that has died may have left its process number, all that CMA knows of it, to
		// another process.
		if p.pullLink.ended() {
			return 0, nil, errGone
		}
	}
	return len(pieces), nil, p.pullLink.send(ctx, opUnpin, sequence(seq))
}

// readTCP pulls by TCP.
func (p *peer) readTCP(ctx context.Context, q *pull, r pageRequest, slots *batch) (got int, err error) {
	bytes := int(r.bytes)
	step := max(1, (maxBody-4)/(bytes+1))
	if bytes > maxBody-8 {
		return 0, fmt.Errorf("%w: pages of %d bytes need NIXL", ErrPageSize, bytes)
	}
	for at := 0; at < len(q.hashes); at += step {
		r.hashes = q.hashes[at:min(at+step, len(q.hashes))]
		n, err := p.pullLink.fetch(ctx, &r, func(i int, present bool) []byte {
			if !present {
				slots.drop(at + i)
				return nil
			}
			return slots.memory(at + i)
		})
		got += n
		if err != nil {
			return 0, err
		}
	}
	return got, nil
}
