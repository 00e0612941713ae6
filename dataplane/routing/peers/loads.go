package peers

import (
	"sync"
	"time"

	"github.com/warmpath/warmpath/dataplane/cluster/codec"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/routing"
)

// maxUnknown bounds the ranks of each router that this one does not have: routers learn of a new
// worker within seconds of each other.
const maxUnknown = 1024

// loads is the load that other routers have in flight, counted at the ranks.
type loads struct {
	cfg   *Config
	pulse *pulse
	count *counters

	mu      sync.Mutex
	peers   map[string]*peer // guarded by mu, as is all below
	members codec.Members    // of peers
	lastKey uint64           // of a peer
	ranks   ranksByHash
	message message
}

// peer is another router. id, owner, key and started never change; loads.mu guards the rest.
type peer struct {
	id      string
	owner   string // see Bus
	key     uint64 // in routing.PromptID; no name makes two routers one
	started int64

	number int64 // of the last message
	heard  time.Time
	lost   uint64
	ranks  map[uint64]*rankLoad // by Hash
	turn   uint64               // of messages, to find the ranks that a whole one left out
}

// rankLoad is the load of a peer at one rank.
type rankLoad struct {
	hash uint64
	told worker.RouterLoad // by the peer; Sent counts from base
	base int64
	turn uint64

	rank    *worker.Rank // where applied is counted; nil: this router has no such rank
	applied worker.RouterLoad
}

// ranksByHash finds ranks by hash.
type ranksByHash struct {
	snap   *worker.Snapshot
	byHash map[uint64]*worker.Rank
}

// expire forgets silent routers, and reports whether there is no other router.
func (l *loads) expire(now time.Time) (alone bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.resolveLocked(now)
	l.members.Expire(now)
	for _, p := range l.peers {
		if now.Sub(p.heard) > l.cfg.Silence {
			l.count.forgotten.Add(1)
			l.cfg.Log.Warn("another router has fallen silent; its load is forgotten", "router", p.id)
			l.forgetLocked(p, now)
		}
	}
	return len(l.peers) == 0
}

// onMessage takes the message of another router.
func (l *loads) onMessage(owner string, data []byte) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	m := &l.message
	if err := m.decode(data); err != nil || !codec.Owned(m.id, owner) {
		l.count.malformed.Add(1)
		return
	}
	if string(m.id) == l.cfg.ID {
		return
	}
	l.count.received.Add(1)
	p := l.peers[string(m.id)]
	if p == nil {
		if m.last || !l.members.Add(owner) {
			return
		}
		p = l.addLocked(m, owner)
		defer l.pulse.poke() // so that it soon hears of this router
	}
	switch {
	case p.owner != owner:
		l.count.malformed.Add(1)
		return
	case m.number <= p.number:
		l.count.stale.Add(1)
		return
	case p.number > 0 && m.number > p.number+1:
		p.lost += uint64(m.number - p.number - 1)
		l.count.lost.Add(uint64(m.number - p.number - 1))
	}
	p.number, p.heard = m.number, now
	if m.last {
		l.cfg.Log.Info("another router has ended", "router", p.id)
		l.forgetLocked(p, now)
	} else {
		l.resolveLocked(now)
		l.updateLocked(p, m, now)
	}
}

// addLocked adds the router of a message.
func (l *loads) addLocked(m *message, owner string) *peer {
	l.lastKey++
	p := &peer{id: string(m.id), owner: owner, key: l.lastKey, started: m.started, ranks: make(map[uint64]*rankLoad)}
	l.peers[p.id] = p
	l.shareLocked()
	l.cfg.Log.Info("another router is there", "router", p.id)
	return p
}

// updateLocked makes a message the load of p, and its prompts predictions.
func (l *loads) updateLocked(p *peer, m *message, now time.Time) {
	p.turn++
	for i := range m.ranks {
		r := &m.ranks[i]
		e := p.ranks[r.rank]
		if e == nil {
			if len(p.ranks) >= len(l.ranks.byHash)+maxUnknown {
				continue // the next whole message makes room
			}
			e = &rankLoad{hash: r.rank, base: r.Sent - r.Pending}
			p.ranks[r.rank] = e
		}
		e.told, e.turn = r.RouterLoad, p.turn
		e.told.Sent -= e.base
	}
	for i := range m.sent {
		q := &m.sent[i]
		// A rank that this router does not know yet is new.
		if rank := l.ranks.byHash[q.rank]; rank != nil {
			l.cfg.Predictions.Add(now, routing.PromptID{Owner: p.owner, Router: p.key, Number: q.number}, rank, q.fingerprints)
		}
	}
	for _, number := range m.done {
		l.cfg.Predictions.Done(now, routing.PromptID{Owner: p.owner, Router: p.key, Number: uint64(number)})
	}
	if !m.whole {
		for i := range m.ranks {
			if e := p.ranks[m.ranks[i].rank]; e != nil {
				l.applyLocked(e, now)
			}
		}
		return
	}
	for hash, e := range p.ranks {
		if e.turn != p.turn {
			e.told = worker.RouterLoad{Sent: e.told.Sent}
		}
		l.applyLocked(e, now)
		if e.rank == nil && e.told.Idle() {
			delete(p.ranks, hash)
		}
	}
}

// applyLocked counts a load at its rank.
func (l *loads) applyLocked(e *rankLoad, now time.Time) {
	if rank := l.ranks.byHash[e.hash]; rank != e.rank {
		e.withdraw(now)
		e.rank = rank
	}
	if e.rank == nil {
		return
	}
	e.rank.Load.ReplacePeer(now, e.applied, e.told)
	e.applied = e.told
}

// withdraw takes the counted load off its rank.
func (e *rankLoad) withdraw(now time.Time) {
	if e.rank != nil {
		e.rank.Load.ReplacePeer(now, e.applied, worker.RouterLoad{Sent: e.applied.Sent})
	}
	e.rank, e.applied = nil, worker.RouterLoad{Sent: e.told.Sent - e.told.Pending}
}

// forgetLocked drops a router and its load.
func (l *loads) forgetLocked(p *peer, now time.Time) {
	for _, e := range p.ranks {
		e.withdraw(now)
	}
	l.cfg.Predictions.Forget(p.key)
	delete(l.peers, p.id)
	l.members.Remove(p.owner)
	l.shareLocked()
}

// shareLocked counts the routers, and tells the ranks how many share them.
func (l *loads) shareLocked() {
	shares, _ := l.members.Shares(l.cfg.ID)
	l.pulse.others.Store(int64(len(l.peers)))
	l.pulse.shares.Store(int64(shares))
	for _, rank := range l.ranks.byHash {
		rank.Load.SetRouters(shares)
	}
}

// forgetAll drops all routers.
func (l *loads) forgetAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	for _, p := range l.peers {
		l.forgetLocked(p, now)
	}
}

// resolveLocked finds the ranks of all loads again when the set of workers has changed.
func (l *loads) resolveLocked(now time.Time) {
	snap := l.cfg.Registry.Snapshot()
	if snap == l.ranks.snap {
		return
	}
	l.ranks = ranksByHash{snap: snap, byHash: make(map[uint64]*worker.Rank, len(snap.Ranks))}
	for _, rank := range snap.Ranks {
		l.ranks.byHash[rank.IDHash()] = rank
		rank.Load.SetRouters(int(l.pulse.shares.Load()))
	}
	for _, p := range l.peers {
		for _, e := range p.ranks {
			l.applyLocked(e, now)
		}
	}
}
