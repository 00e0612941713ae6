package peers

import (
	"sync"
	"time"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/routing"
)

const (
	// maxPeers bounds the routers that messages can make this one remember.
	maxPeers = 256
	// promiseFor is the life of a promise that its router does not confirm: it publishes every
	// few milliseconds.
	promiseFor = time.Second
)

// loads is the load that other routers have in flight, and the promises made to them, counted
// at the ranks.
type loads struct {
	cfg    *Config
	leader *leadership
	count  *counters

	mu      sync.Mutex
	peers   map[string]*peer // guarded by mu, as is all below
	ranks   ranksByHash
	message loadMessage
	changed []*rankLoad // scratch
}

// peer is another router. id, subject and started never change; loads.mu guards the rest.
type peer struct {
	id      string
	key     uint64 // in routing.PromptID
	started int64
	subject string // of requests to it

	number   int64 // of the last message
	heard    time.Time
	lost     uint64
	ranks    map[uint64]*rankLoad // by Hash
	promises map[uint64]*promise  // by number of the request
	turn     uint64               // of messages, to find the ranks that a whole one left out
}

// rankLoad is the load of a peer at one rank.
type rankLoad struct {
	hash     uint64
	told     worker.RouterLoad // by the peer; Sent counts from base
	base     int64
	heard    bool              // the peer has told some
	promised worker.RouterLoad // of promises that the peer has not confirmed
	turn     uint64

	rank    *worker.Rank // where applied is counted; nil: this router has no such rank
	applied worker.RouterLoad
}

// promise is a choice made for a peer.
type promise struct {
	at            time.Time
	rank, decode  uint64
	first, second worker.RouterLoad
}

// ranksByHash finds ranks by hash.
type ranksByHash struct {
	snap   *worker.Snapshot
	byHash map[uint64]*worker.Rank
}

// size returns the number of other routers.
func (l *loads) size() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.peers)
}

// knows reports whether there is a router of that id.
func (l *loads) knows(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.peers[id] != nil
}

// expire forgets silent routers and old promises, and reports whether there is no other router.
func (l *loads) expire(now time.Time) (alone bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.resolveLocked(now)
	for _, p := range l.peers {
		if now.Sub(p.heard) > l.cfg.Silence {
			l.count.forgotten.Add(1)
			l.cfg.Log.Warn("another router has fallen silent; its load is forgotten", "router", p.id)
			l.forgetLocked(p, now)
			continue
		}
		changed := l.changed[:0]
		for number, q := range p.promises {
			if now.Sub(q.at) > promiseFor {
				changed = p.drop(changed, number)
			}
		}
		l.applyAllLocked(changed, now)
	}
	l.leader.elect(l.peers)
	return len(l.peers) == 0
}

// onMessage takes the load message of another router.
func (l *loads) onMessage(data []byte) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	m := &l.message
	if err := m.decode(data); err != nil {
		l.count.malformed.Add(1)
		return
	}
	if string(m.id) == l.cfg.ID {
		return
	}
	l.count.received.Add(1)
	p := l.peers[string(m.id)]
	if p == nil {
		if m.last || len(l.peers) >= maxPeers {
			return
		}
		p = l.addLocked(m)
		defer l.leader.poke() // so that it soon hears of this router
	}
	switch {
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
	l.leader.elect(l.peers)
}

// addLocked adds the router of a message.
func (l *loads) addLocked(m *loadMessage) *peer {
	p := &peer{id: string(m.id), started: m.started, ranks: make(map[uint64]*rankLoad), promises: make(map[uint64]*promise)}
	p.subject, p.key = subjectRequest+p.id, promptID(p.id, 0).Router
	l.peers[p.id] = p
	l.cfg.Log.Info("another router is there", "router", p.id)
	return p
}

// updateLocked makes a message the load of p.
func (l *loads) updateLocked(p *peer, m *loadMessage, now time.Time) {
	p.turn++
	for i := range m.ranks {
		r := &m.ranks[i]
		e := p.at(r.rank)
		if !e.heard {
			e.heard, e.base = true, r.Sent-r.Pending
		}
		e.told, e.turn = r.RouterLoad, p.turn
		e.told.Sent -= e.base
	}
	// A rank is applied when all of the message about it is known: choices read it at any time,
	// and would otherwise see some requests twice.
	changed := l.changed[:0]
	for _, number := range m.sent {
		changed = p.drop(changed, uint64(number))
		l.cfg.Predictions.Sent(now, routing.PromptID{Router: p.key, Number: uint64(number)})
	}
	for _, number := range m.done {
		l.cfg.Predictions.Done(now, routing.PromptID{Router: p.key, Number: uint64(number)})
	}
	l.applyAllLocked(changed, now)
	if !m.whole {
		for i := range m.ranks {
			l.applyLocked(p.ranks[m.ranks[i].rank], now)
		}
		return
	}
	for hash, e := range p.ranks {
		if e.turn != p.turn {
			e.told = worker.RouterLoad{Sent: e.told.Sent}
		}
		l.applyLocked(e, now)
		if e.rank == nil && e.told.Idle() && e.promised.Idle() {
			delete(p.ranks, hash)
		}
	}
}

// promise counts a choice for the router of a request.
func (l *loads) promise(q *request, d *routing.Decision) {
	uncached, work := int64(max(d.Uncached(), 0)), d.Work(q.Output, len(q.Fingerprints) > 0)
	made := &promise{
		at: time.Now(), rank: d.Rank.IDHash(),
		first: worker.RouterLoad{InFlight: 1, Waiting: 1, Pending: uncached, Used: uncached, Held: work.Holds(), Sent: uncached},
	}
	if d.Decode != nil {
		made.decode = d.Decode.IDHash()
		made.second = worker.RouterLoad{InFlight: 1, Waiting: 1, Used: int64(d.DecodeTokens()), Held: work.Holds()}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.peers[string(q.id)]
	if p == nil || p.promises[q.number] != nil {
		return
	}
	l.resolveLocked(made.at)
	p.promises[q.number] = made
	l.cfg.Predictions.Add(made.at, routing.PromptID{Router: p.key, Number: q.number}, made.rank, q.Tokens, q.Fingerprints, false)
	first, second := p.add(made, 1)
	l.applyLocked(first, made.at)
	if second != nil {
		l.applyLocked(second, made.at)
	}
}

func (p *peer) at(hash uint64) *rankLoad {
	e := p.ranks[hash]
	if e == nil {
		e = &rankLoad{hash: hash}
		p.ranks[hash] = e
	}
	return e
}

// add counts a promise times by, which is -1 to take it off.
func (p *peer) add(q *promise, by int64) (first, second *rankLoad) {
	first = p.at(q.rank)
	first.promised = first.promised.Plus(times(q.first, by))
	if q.decode != 0 {
		second = p.at(q.decode)
		second.promised = second.promised.Plus(times(q.second, by))
	}
	return first, second
}

func times(s worker.RouterLoad, n int64) worker.RouterLoad {
	return worker.RouterLoad{InFlight: n * s.InFlight, Waiting: n * s.Waiting, Pending: n * s.Pending, Used: n * s.Used, Held: n * s.Held, Sent: n * s.Sent}
}

// drop takes a promise off, if there is one, and appends the loads to apply.
func (p *peer) drop(dst []*rankLoad, number uint64) []*rankLoad {
	q := p.promises[number]
	if q == nil {
		return dst
	}
	delete(p.promises, number)
	first, second := p.add(q, -1)
	if dst = append(dst, first); second != nil {
		dst = append(dst, second)
	}
	return dst
}

// applyAllLocked applies the loads that peer.drop has appended to l.changed.
func (l *loads) applyAllLocked(changed []*rankLoad, now time.Time) {
	for _, e := range changed {
		l.applyLocked(e, now)
	}
	clear(changed)
	l.changed = changed[:0]
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
	is := e.told.Plus(e.promised)
	e.rank.Load.ReplacePeer(now, e.applied, is)
	e.applied = is
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
}

// forgetAll drops all routers.
func (l *loads) forgetAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	for _, p := range l.peers {
		l.forgetLocked(p, now)
	}
	l.leader.elect(l.peers)
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
	}
	for _, p := range l.peers {
		for _, e := range p.ranks {
			l.applyLocked(e, now)
		}
	}
}

// promptID names a prompt of a router. The key of a router is FNV-1a of its ID, and never 0.
func promptID(router string, number uint64) routing.PromptID {
	h := uint64(14695981039346656037)
	for i := range len(router) {
		h = (h ^ uint64(router[i])) * 1099511628211
	}
	return routing.PromptID{Router: max(h, 1), Number: number}
}
