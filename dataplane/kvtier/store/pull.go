package store

import (
	"context"
	"fmt"
	"time"

	"github.com/warmpath/warmpath/dataplane/kvtier/proto"
	"github.com/warmpath/warmpath/nixl"
)

// pull is a batch of pages that a peer has and this tier will have. It is announced in Tier.pulls until it is done, well or not.
type pull struct {
	ns     uint32
	hashes []proto.Hash
	parent *proto.Hash
	done   chan struct{}
	hinted bool // it came of a router's hint
}

const (
	pullPages = 128      // of one pull: an engine that waits for a prompt's first pages does not wait for its last
	pullBytes = 32 << 20 // likewise
)

// startPull queues the pages for the peer's goroutine, in batches. It returns how many of them, from the first on, will come.
func (t *Tier) startPull(p *peer, ns uint32, hashes []proto.Hash, parent *proto.Hash, hinted bool) int {
	space, ok := t.spaceOf(ns)
	if !ok {
		return 0
	}
	step := max(1, min(pullPages, pullBytes/int(space.bytes)))
	hashes = append([]proto.Hash(nil), hashes...) // the caller's are reused
	if parent != nil {
		own := *parent
		parent = &own
	}
	for at := 0; at < len(hashes); at += step {
		q := &pull{ns: ns, hashes: hashes[at:min(at+step, len(hashes))], parent: parent, done: make(chan struct{}), hinted: hinted}
		parent = &q.hashes[len(q.hashes)-1]
		t.announce(q)
		select {
		case p.pulls <- q:
		default: // the peer is slow
			t.finish(q)
			return at
		}
		select {
		case <-p.gone:
			p.drain()
			return at
		default:
		}
	}
	return len(hashes)
}

// announce tells who looks for these pages that they come.
func (t *Tier) announce(q *pull) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, h := range q.hashes {
		if k := (key{q.ns, h}); t.pulls[k] == nil {
			t.pulls[k] = q
		}
	}
}

// finish ends a pull: its pages are here now, or will not come.
func (t *Tier) finish(q *pull) {
	t.mu.Lock()
	for _, h := range q.hashes {
		if k := (key{q.ns, h}); t.pulls[k] == q {
			delete(t.pulls, k)
		}
	}
	t.mu.Unlock()
	close(q.done)
}

// coming returns how many of the pages, from the first on, are being pulled.
func (t *Tier) coming(ns uint32, hashes []proto.Hash) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, h := range hashes {
		if t.pulls[key{ns, h}] == nil {
			return i
		}
	}
	return len(hashes)
}

// await waits for those of the pages that are being pulled, for so long at most.
func (t *Tier) await(ns uint32, hashes []proto.Hash, wait time.Duration) {
	var timer *time.Timer
	for _, h := range hashes {
		t.mu.Lock()
		q := t.pulls[key{ns, h}]
		t.mu.Unlock()
		if q == nil {
			continue
		}
		if timer == nil {
			timer = time.NewTimer(wait)
			defer timer.Stop()
		}
		select {
		case <-q.done:
		case <-timer.C:
			return
		}
	}
}

// drain ends the pulls that nobody will do.
func (p *peer) drain() {
	for {
		select {
		case q := <-p.pulls:
			p.tier.finish(q)
		default:
			return
		}
	}
}

// pull does one pull. The pages that are not here get room, are read into it, and are readable when all of them have come.
func (p *peer) pull(ctx context.Context, q *pull) {
	t := p.tier
	defer t.finish(q)
	if t.enter() != nil {
		return
	}
	defer t.leave()
	ctx, cancel := context.WithTimeout(ctx, t.cfg.pull)
	defer cancel()
	// What it asks for is of the clear that its room is of. Room in a namespace that has been discarded
	// meanwhile is never readable.
	space, ok := t.spaceOf(q.ns)
	if !ok {
		return
	}
	began := time.Now()
	room, _ := t.reserveFor(q.ns, q.hashes, q.parent, nil, !q.hinted)
	got, err := p.fill(ctx, q, space, room)
	if err != nil {
		t.counts.pullFailed.Add(1)
		t.log.Warn("cannot pull KV pages from a peer", "peer", p.Name, "pages", len(q.hashes), "error", err)
		p.dropPull(err)
		return
	}
	bytes := int(space.bytes)
	t.counts.pulled.Add(int64(got))
	t.counts.pulledBytes.Add(int64(got * bytes))
	took := time.Since(began)
	t.counts.pullTime.Add(int64(took))
	p.rate.add(got*bytes, took)
	if q.hinted {
		t.hints.pulled.Add(int64(got))
	}
}

// fill reads the pages, and commits or abandons the room for them: where NIXL could still write to it, once it cannot.
func (p *peer) fill(ctx context.Context, q *pull, r pageRequest, room *pendingSet) (got int, err error) {
	var busy *nixl.Transfer
	if err = p.dialPull(ctx); err == nil {
		if p.remote != nil {
			if got, busy, err = p.read(ctx, q, r, room); err == nil {
				p.tier.counts.pulledNIXL.Add(int64(got))
			}
		} else {
			got, err = p.fetch(ctx, q, r, room)
		}
	}
	switch {
	case err == nil:
		room.commit()
	case busy == nil:
		room.abandon()
	default:
		p.tier.quarantine(room, busy)
	}
	return got, err
}

// dialPull makes the connection for pulls, and loads the peer's metadata where both sides have NIXL.
func (p *peer) dialPull(ctx context.Context) error {
	if p.pullLink != nil && p.pullLink.ended() { // by a peer that was restarted while nothing was pulled
		p.dropPull(nil)
	}
	if p.pullLink == nil {
		l, err := p.tier.dialPeer(ctx, p.Endpoint)
		if err != nil {
			return err
		}
		p.pullLink = l
	}
	w := p.pullLink.welcome
	agent := p.tier.taker()
	if agent == nil || len(w.metadata) == 0 || !nixlReaches(p.tier.welcome(), w) || (p.remote != nil && p.loaded == w.instance && p.remote.Err() == nil) {
		return nil
	}
	if p.remote != nil {
		p.remote.Close()
		p.remote = nil
	}
	remote, err := agent.Load(w.metadata)
	if err != nil {
		// TCP works all the same.
		p.tier.log.Warn("cannot use NIXL to a peer, and pull by TCP", "peer", p.Name, "error", err)
		return nil
	}
	p.remote, p.loaded = remote, w.instance
	return nil
}

// read pulls by NIXL: the peer pins the pages and says where they lie, and its CPU does no more. busy is the transfer that may still write.
func (p *peer) read(ctx context.Context, q *pull, r pageRequest, room *pendingSet) (got int, busy *nixl.Transfer, err error) {
	t := p.tier
	memory, err := p.remote.Memory(p.pullLink.welcome.memory)
	if err != nil {
		return 0, nil, err
	}
	bytes := int(r.bytes)
	r.lease, r.hashes = uint32(2*t.cfg.pull.Milliseconds()), q.hashes
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
			room.drop(i)
		case o > memory.Len || memory.Len-o < uint64(bytes):
			return 0, nil, fmt.Errorf("%w: a page at %d of %d bytes", ErrWire, o, memory.Len)
		case room.entries[i] != none:
			pieces = append(pieces, nixl.Piece{Local: uint64(room.offset(i)), Remote: o, Len: uint64(bytes)})
		}
	}
	if len(pieces) > 0 {
		// The peer keeps the pages for longer than ctx lasts: what was read in time is what was asked for.
		transfer, err := p.remote.Transfer(ctx, nixl.Read, t.nixl.takes, memory, pieces)
		if err != nil {
			return 0, transfer, err
		}
		// A peer that has died meanwhile may have left its process number, which is all that CMA knows of it, to another one.
		if p.pullLink.ended() {
			return 0, nil, errGone
		}
	}
	return len(pieces), nil, p.pullLink.send(ctx, opUnpin, sequence(seq))
}

// fetch pulls by TCP.
func (p *peer) fetch(ctx context.Context, q *pull, r pageRequest, room *pendingSet) (got int, err error) {
	bytes := int(r.bytes)
	step := max(1, (maxBody-4)/(bytes+1))
	if bytes > maxBody-8 {
		return 0, fmt.Errorf("%w: pages of %d bytes need NIXL", ErrPageSize, bytes)
	}
	for at := 0; at < len(q.hashes); at += step {
		r.hashes = q.hashes[at:min(at+step, len(q.hashes))]
		n, err := p.pullLink.fetch(ctx, &r, func(i int, here bool) []byte {
			if !here {
				room.drop(at + i)
				return nil
			}
			return room.memory(at + i)
		})
		got += n
		if err != nil {
			return 0, err
		}
	}
	return got, nil
}

// quarantine keeps the room of a transfer that was given up until NIXL cannot write to it any more.
func (t *Tier) quarantine(room *pendingSet, busy *nixl.Transfer) {
	t.counts.quarantined.Add(int64(len(room.entries)))
	t.peers.wg.Go(func() {
		select {
		case <-busy.Settled():
			room.abandon()
		case <-t.ended: // with this tier, and NIXL's own mapping of the memory stays as long as it must
		}
		t.counts.quarantined.Add(-int64(len(room.entries)))
	})
}
