package sim

import (
	"sync"
	"sync/atomic"
)

// roomKey names a bootstrap room of a prefill rank.
type roomKey struct {
	rank int
	room int64
}

// waitingLeg is a prefill leg in its room. Its functions only queue work for the rank.
type waitingLeg struct {
	connected func(*decodeConn) // The decode worker has connected.
	aborted   func()            // The decode worker has given up.
}

// decodeConn is a decode worker's connection to a room.
type decodeConn struct {
	cached  int          // Leading tokens that the decode worker has already.
	kv      chan handoff // Capacity 1: from the rank to the connection.
	aborted atomic.Bool  // The decode worker has sent an abort.
	lost    atomic.Bool  // The connection broke.
}

// handoff is a prefill rank's message to a decode rank, sent with keys and values.
type handoff struct {
	First          uint32
	Cached, Prompt int // tokens of the prompt: found in a cache, all
}

// roomTable matches the prefill legs and the decode workers of each room, in any order of
// arrival.
type roomTable struct {
	mu    sync.Mutex
	legs  map[roomKey]waitingLeg
	conns map[roomKey]*decodeConn
}

func newRoomTable() *roomTable {
	return &roomTable{legs: make(map[roomKey]waitingLeg), conns: make(map[roomKey]*decodeConn)}
}

// addLeg enters a prefill leg; false if its room has one.
func (t *roomTable) addLeg(key roomKey, leg waitingLeg) bool {
	t.mu.Lock()
	_, taken := t.legs[key]
	if !taken {
		t.legs[key] = leg
	}
	c := t.conns[key]
	t.mu.Unlock()
	if !taken && c != nil {
		leg.connected(c)
	}
	return !taken
}

func (t *roomTable) removeLeg(key roomKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.legs, key)
}

// addConn enters a decode worker's connection; false if its room has one.
func (t *roomTable) addConn(key roomKey, c *decodeConn) bool {
	t.mu.Lock()
	_, taken := t.conns[key]
	if !taken {
		t.conns[key] = c
	}
	leg, waits := t.legs[key]
	t.mu.Unlock()
	if !taken && waits {
		leg.connected(c)
	}
	return !taken
}

// removeConn ends a decode worker's connection. The prefill leg notices an abort at once, and a
// broken connection only when it sends.
func (t *roomTable) removeConn(key roomKey, c *decodeConn, aborted bool) {
	t.mu.Lock()
	delete(t.conns, key)
	leg, waits := t.legs[key]
	t.mu.Unlock()
	if !aborted {
		c.lost.Store(true)
		return
	}
	c.aborted.Store(true)
	if waits {
		leg.aborted()
	}
}

// maxUsedRooms bounds the memory of used rooms: 16 MB.
const maxUsedRooms = 1 << 20

// usedRooms remembers the rooms that a worker's requests have named, over restarts.
type usedRooms struct {
	mu     sync.Mutex
	seen   map[int64]struct{}
	reused int
}

func (b *usedRooms) add(room int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, again := b.seen[room]; again {
		b.reused++
	}
	if b.seen == nil || len(b.seen) >= maxUsedRooms {
		b.seen = make(map[int64]struct{})
	}
	b.seen[room] = struct{}{}
}
