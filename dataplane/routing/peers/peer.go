package peers

import (
	"time"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/routing"
)

const (
	// mostPeers bounds what strange messages can make this router remember.
	mostPeers = 256
	// promiseFor is how long a choice for another router counts without a word of it: that one is told every few milliseconds.
	promiseFor = time.Second
)

// peer is another router. id and started never change; the rest is guarded by Group.mu.
type peer struct {
	id      string
	key     uint64 // names it in route.Sender
	started int64
	ask     string // subject

	number   int64 // of the last message
	heard    time.Time
	lost     uint64
	ranks    map[uint64]*entry   // by Hash
	promises map[uint64]*promise // by number of the question
	turn     uint64              // of messages, to find what a whole one left out
}

// entry is what a peer has at one rank.
type entry struct {
	hash     uint64
	said     worker.RouterLoad // by itself; Sent counts from base
	base     int64
	heard    bool              // said something
	promised worker.RouterLoad // what was chosen for it and it has not said yet
	turn     uint64

	rank    *worker.Rank // where applied is counted; nil: this router knows no such rank
	applied worker.RouterLoad
}

// promise is a choice made for a peer.
type promise struct {
	at            time.Time
	rank, decode  uint64
	share, second worker.RouterLoad
}

// ranks finds ranks by hash.
type ranks struct {
	snap   *worker.Snapshot
	byHash map[uint64]*worker.Rank
}

// upkeep forgets who is silent and what was promised for too long, and reports whether nobody else is there.
func (g *Group) upkeep(now time.Time) (alone bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.resolveLocked(now)
	for _, p := range g.peers {
		if now.Sub(p.heard) > g.cfg.Silence {
			g.count.forgotten.Add(1)
			g.cfg.Log.Warn("another router has fallen silent; its load is forgotten", "router", p.id)
			g.forgetLocked(p, now)
			continue
		}
		kept := g.kept[:0]
		for number, q := range p.promises {
			if now.Sub(q.at) > promiseFor {
				kept = p.kept(kept, number)
			}
		}
		g.settleKeptLocked(kept, now)
	}
	g.electLocked()
	return len(g.peers) == 0
}

// onState takes what another router tells.
func (g *Group) onState(data []byte) {
	now := time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	s := &g.in
	if err := s.read(data); err != nil {
		g.count.malformed.Add(1)
		return
	}
	if string(s.id) == g.cfg.ID {
		return
	}
	g.count.received.Add(1)
	p := g.peers[string(s.id)]
	if p == nil {
		if s.last || len(g.peers) >= mostPeers {
			return
		}
		p = &peer{id: string(s.id), started: s.started, ranks: make(map[uint64]*entry), promises: make(map[uint64]*promise)}
		p.ask, p.key = subjectAsk+p.id, senderOf(p.id, 0).Router
		g.peers[p.id] = p
		g.cfg.Log.Info("another router is there", "router", p.id)
		defer g.poke() // so that it hears of us soon
	}
	switch {
	case s.number <= p.number:
		g.count.stale.Add(1)
		return
	case p.number > 0 && s.number > p.number+1:
		p.lost += uint64(s.number - p.number - 1)
		g.count.lost.Add(uint64(s.number - p.number - 1))
	}
	p.number, p.heard = s.number, now
	if s.last {
		g.cfg.Log.Info("another router has ended", "router", p.id)
		g.forgetLocked(p, now)
	} else {
		g.resolveLocked(now)
		g.applyLocked(p, s, now)
	}
	g.electLocked()
}

// applyLocked makes a state what is known of p.
func (g *Group) applyLocked(p *peer, s *state, now time.Time) {
	p.turn++
	for i := range s.ranks {
		r := &s.ranks[i]
		e := p.entry(r.rank)
		if !e.heard {
			e.heard, e.base = true, r.Sent-r.Pending
		}
		e.said, e.turn = r.RouterLoad, p.turn
		e.said.Sent -= e.base
	}
	// A rank is counted anew when all that is said of it is known: choices see it at any time, and would else see some requests twice.
	kept := g.kept[:0]
	for _, number := range s.sent {
		kept = p.kept(kept, uint64(number))
		g.cfg.Expected.Sent(now, routing.Sender{Router: p.key, Number: uint64(number)})
	}
	for _, number := range s.done {
		g.cfg.Expected.Done(now, routing.Sender{Router: p.key, Number: uint64(number)})
	}
	g.settleKeptLocked(kept, now)
	if !s.whole {
		for i := range s.ranks {
			g.settleLocked(p.ranks[s.ranks[i].rank], now)
		}
		return
	}
	for hash, e := range p.ranks {
		if e.turn != p.turn {
			e.said = worker.RouterLoad{Sent: e.said.Sent}
		}
		g.settleLocked(e, now)
		if e.rank == nil && e.said.Idle() && e.promised.Idle() {
			delete(p.ranks, hash)
		}
	}
}

func (p *peer) entry(hash uint64) *entry {
	e := p.ranks[hash]
	if e == nil {
		e = &entry{hash: hash}
		p.ranks[hash] = e
	}
	return e
}

// take adds a promise to what is counted, or with -1 takes it off.
func (p *peer) take(q *promise, by int64) (first, second *entry) {
	first = p.entry(q.rank)
	first.promised = first.promised.Plus(times(q.share, by))
	if q.decode != 0 {
		second = p.entry(q.decode)
		second.promised = second.promised.Plus(times(q.second, by))
	}
	return first, second
}

func times(s worker.RouterLoad, n int64) worker.RouterLoad {
	return worker.RouterLoad{InFlight: n * s.InFlight, Waiting: n * s.Waiting, Pending: n * s.Pending, Used: n * s.Used, Held: n * s.Held, Sent: n * s.Sent}
}

// kept takes a promise back, if there is one, and appends the entries that are to be settled.
func (p *peer) kept(dst []*entry, number uint64) []*entry {
	q := p.promises[number]
	if q == nil {
		return dst
	}
	delete(p.promises, number)
	first, second := p.take(q, -1)
	if dst = append(dst, first); second != nil {
		dst = append(dst, second)
	}
	return dst
}

// settleKeptLocked settles what peer.kept has appended to g.kept.
func (g *Group) settleKeptLocked(kept []*entry, now time.Time) {
	for _, e := range kept {
		g.settleLocked(e, now)
	}
	clear(kept)
	g.kept = kept[:0]
}

// settleLocked counts what e says at its rank.
func (g *Group) settleLocked(e *entry, now time.Time) {
	if rank := g.known.byHash[e.hash]; rank != e.rank {
		g.withdraw(e, now)
		e.rank = rank
	}
	if e.rank == nil {
		return
	}
	is := e.said.Plus(e.promised)
	e.rank.Load.ReplacePeer(now, e.applied, is)
	e.applied = is
}

// withdraw takes back what e has counted.
func (g *Group) withdraw(e *entry, now time.Time) {
	if e.rank != nil {
		e.rank.Load.ReplacePeer(now, e.applied, worker.RouterLoad{Sent: e.applied.Sent})
	}
	e.rank, e.applied = nil, worker.RouterLoad{Sent: e.said.Sent - e.said.Pending}
}

// forgetLocked drops a router and its load.
func (g *Group) forgetLocked(p *peer, now time.Time) {
	for _, e := range p.ranks {
		g.withdraw(e, now)
	}
	g.cfg.Expected.Forget(p.key)
	delete(g.peers, p.id)
}

// resolveLocked finds the ranks again where the set of workers has changed.
func (g *Group) resolveLocked(now time.Time) {
	snap := g.cfg.Registry.Snapshot()
	if snap == g.known.snap {
		return
	}
	g.known = ranks{snap: snap, byHash: make(map[uint64]*worker.Rank, len(snap.Ranks))}
	for _, rank := range snap.Ranks {
		g.known.byHash[rank.IDHash()] = rank
	}
	for _, p := range g.peers {
		for _, e := range p.ranks {
			g.settleLocked(e, now)
		}
	}
}

// electLocked finds who chooses: whoever runs for longest, so that a router that comes changes nothing, and one that goes as little as
// can be.
func (g *Group) electLocked() {
	var chief *peer
	started, id := g.started, g.cfg.ID
	for _, p := range g.peers {
		if p.started < started || (p.started == started && p.id < id) {
			chief, started, id = p, p.started, p.id
		}
	}
	g.some.Store(len(g.peers) > 0)
	if g.chief.Swap(chief) != chief {
		g.skip.end()
		g.retell.Store(true)
		g.poke()
	}
}

// senderOf names a prompt of a router. The key of a router is FNV-1a of its ID, and never 0.
func senderOf(id string, number uint64) routing.Sender {
	h := uint64(14695981039346656037)
	for i := range len(id) {
		h = (h ^ uint64(id[i])) * 1099511628211
	}
	return routing.Sender{Router: max(h, 1), Number: number}
}

// poke ends Run's sleep.
func (g *Group) poke() {
	select {
	case g.wake <- struct{}{}:
	default:
	}
}
