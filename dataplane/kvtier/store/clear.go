package store

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"
)

// A clear drops all pages of a model, here and at peers. Each has a stamp, larger than those that
// the tier knows of, and tiers tell each other of stamps: all at once after a clear, and two that
// connect. Pages go only from a tier to one with the same stamp. So a pull that began before a
// clear brings nothing back, and a peer that was out of reach drops its pages before it gives any.

// clearLimit is the longest that an engine waits for peers to clear.
const clearLimit = 10 * time.Second

// clearSkew is how far a peer's clock may be ahead. A clear from beyond is not believed, since no
// later one could have a larger stamp; that peer's pages of the model are then not taken either.
const clearSkew = 24 * time.Hour

// clear is what an engine asks for: it drops the pages of its model.
func (n *session) clear(h header) error {
	if len(n.body) != 4 {
		return fmt.Errorf("%w: clear of %d bytes", ErrWire, len(n.body))
	}
	wait := time.Duration(binary.LittleEndian.Uint32(n.body)) * time.Millisecond
	pages, told, missing := n.tier.Clear(n.name, min(wait, clearLimit))
	n.out = binary.LittleEndian.AppendUint64(n.out[:0], uint64(pages))
	n.out = binary.LittleEndian.AppendUint32(n.out, uint32(told))
	n.out = binary.LittleEndian.AppendUint32(n.out, uint32(missing))
	return n.send(header{op: h.op, seq: h.seq}, n.out, nil)
}

// Clear drops all pages of the model whose namespace has a name, and has peers do so too, for which
// it waits so long at most. It returns how many pages were dropped here, how many peers have done
// it and how many are out of reach; these learn of it when they can be asked again.
func (t *Tier) Clear(name string, wait time.Duration) (pages, told, missing int) {
	t.mu.Lock()
	ns, ok := t.index.names[name]
	if !ok {
		t.mu.Unlock()
		return 0, 0, 0
	}
	family := t.index.spaces[ns].family
	stamp := max(t.index.stamps[family]+1, uint64(t.cfg.Now().UnixNano()))
	pages = t.index.clear(family, stamp)
	t.mu.Unlock()
	t.counts.clears.Add(1)
	t.log.Info("an engine cleared the KV tier of its model", "pages", pages)
	t.wake()
	t.collect()
	told, missing = t.tellCleared(clears{family: stamp}, wait)
	return pages, told, missing
}

// tellCleared tells all peers of a clear.
func (t *Tier) tellCleared(c clears, wait time.Duration) (told, missing int) {
	t.peers.mu.Lock()
	ctx, all := t.peers.ctx, len(t.peers.all)
	t.peers.mu.Unlock()
	if ctx == nil {
		return 0, all
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	var wg sync.WaitGroup
	var done atomic.Int64
	for _, p := range t.live() {
		wg.Go(func() {
			if p.tell(ctx, c) {
				done.Add(1)
			}
		})
	}
	wg.Wait()
	told = int(done.Load())
	return told, max(0, all-told)
}

// tell tells the peer of clears. It is told again when it connects, if this fails.
func (p *peer) tell(ctx context.Context, c clears) bool {
	select {
	case p.asking <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	defer func() { <-p.asking }()
	if p.ask == nil {
		return false
	}
	if err := p.tier.exchange(ctx, p.ask, c); err != nil {
		p.dropAsk()
		return false
	}
	return true
}

// exchange tells a peer of clears, and learns which it knows of.
func (t *Tier) exchange(ctx context.Context, l *link, c clears) error {
	body, _, err := l.call(ctx, opCleared, c.encode())
	if err != nil {
		return err
	}
	theirs, err := parseClears(body)
	if err != nil {
		return err
	}
	t.adopt(theirs)
	return nil
}

// adopt does the clears that were not known here. It returns all that are.
func (t *Tier) adopt(theirs clears) clears {
	dropped := false
	latest := uint64(t.cfg.Now().Add(clearSkew).UnixNano())
	t.mu.Lock()
	for family, stamp := range theirs {
		if stamp > t.index.stamps[family] && stamp <= latest {
			t.index.clear(family, stamp)
			dropped = true
		}
	}
	own := clears(maps.Clone(t.index.stamps))
	t.mu.Unlock()
	if dropped {
		t.counts.clears.Add(1)
		t.wake()
		t.collect()
	}
	return own
}

// cleared are the clears that are known here.
func (t *Tier) cleared() clears { return t.adopt(nil) }

// collect drops the pages of namespaces that were discarded, as far as nobody reads or fills them.
func (t *Tier) collect() {
	for at := 0; at >= 0; {
		t.mu.Lock()
		at = t.index.collect(at)
		t.mu.Unlock()
	}
}

// open returns the namespace of a name for a connection of an engine, until left.
func (t *Tier) open(name string, bytes int) (uint32, error) {
	if _, err := t.space(name, bytes); err != nil {
		return 0, err
	}
	t.mu.Lock()
	// Others that are new may have pushed it out meanwhile.
	ns, err := t.index.space(name, bytes)
	if err == nil {
		t.index.enter(name)
	}
	t.mu.Unlock()
	t.wake()
	return ns, err
}

// left is a connection that has ended; retired, since the engine's weights are others now.
func (t *Tier) left(name string, retired bool) {
	t.mu.Lock()
	discarded := t.index.leave(name, retired)
	t.mu.Unlock()
	t.wake()
	if discarded {
		t.collect()
	}
}
