package clientkey

import (
	"context"
	"log/slog"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/dataplane/cluster/codec"
)

// Bus carries messages between routers, at most once and in no order. Package cluster has one.
type Bus interface {
	// PublishOwn sends data to all subscribers, in the name of this router's token. It does not
	// wait for them and keeps no part of data.
	PublishOwn(subject string, data []byte) error
	// SubscribeOwn calls f with each message and the name in the token of its sender; "" is one
	// that may use any. f keeps no part of data.
	SubscribeOwn(subject string, f func(owner string, data []byte)) (stop func(), err error)
}

// subjectUse is the subject of all messages: each router tells the use of its clients.
const subjectUse = "replica.keys"

const (
	// tellEvery is the least time between two messages of changes.
	tellEvery = 5 * time.Millisecond
	// wholeEvery is the time between two messages of all names in use, which are heartbeats.
	wholeEvery = time.Second
	// silence is the time after which a silent router is forgotten.
	silence = 3 * time.Second
	// maxWait bounds the wait of a request for a message to come back, which takes milliseconds.
	maxWait = 100 * time.Millisecond
	// maxEntries bounds the names of a message: 430 KB at most, and NATS takes 1 MiB.
	maxEntries = 4096
)

// group is the knowledge of all names here about the other routers.
type group struct {
	shares atomic.Uint64 // of codec.Members, the owners in the upper half; 0 is 1 and 1
	wake   chan struct{} // has room for one: some use has changed

	mu      sync.Mutex
	changed []*Key        // since the last message; guarded by mu
	told    chan struct{} // closed when a message has come back; guarded by mu
}

func newGroup() *group { return &group{wake: make(chan struct{}, 1), told: make(chan struct{})} }

// nextTold returns a channel that is closed when the next message of this router has come back.
func (g *group) nextTold() <-chan struct{} {
	if g.alone() {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.told
}

// tell wakes the requests that wait for a message to come back.
func (g *group) tell() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.told)
	g.told = make(chan struct{})
}

// sharers are those of a limit: the routers, each with an equal share of its token's, and the
// owners of tokens, each with an equal share.
type sharers struct{ routers, owners float64 }

// others returns the part of a limit that is for routers with other tokens.
func (s sharers) others(limit float64) float64 { return limit - limit/s.owners }

func (g *group) sharers() sharers {
	n := g.shares.Load()
	return sharers{float64(max(n&math.MaxUint32, 1)), float64(max(n>>32, 1))}
}

// alone reports whether nobody shares the limits.
func (g *group) alone() bool { return g.shares.Load()&math.MaxUint32 <= 1 }

// changedLocked has the other routers hear of a key's use. The caller holds used.mu.
func (k *Key) changedLocked() {
	g := k.used.group
	if g.alone() || k.used.telling || k.concurrency == 0 && k.requests == 0 && k.tokens == 0 {
		return
	}
	k.used.telling = true
	g.mu.Lock()
	g.changed = append(g.changed, k)
	g.mu.Unlock()
	select {
	case g.wake <- struct{}{}:
	default: // it is awake
	}
}

// sharing tells other routers the use of clients here, and counts the use there.
type sharing struct {
	keys *Keys
	bus  Bus
	id   string // of this router
	log  *slog.Logger

	// Of the goroutine of Share.
	number  int64 // of the last message
	changed []*Key
	entries []useEntry
	buf     []byte

	newcomer chan struct{} // has room for one

	mu      sync.Mutex
	peers   map[string]*peer // by id; guarded by mu, as is all below
	members codec.Members    // of peers
	message useMessage
	echo    time.Time // of the last message of this router's own that came back
	up      time.Time // of the first such message after an outage
}

// peer is another router.
type peer struct {
	owner    string // see Bus
	foreign  bool   // its token is not this router's
	number   int64  // of the last message
	heard    time.Time
	complete bool // names that it has not told of have used nothing there
	names    map[string]*peerUse
}

// peerUse is the use of a name at another router, as it is counted here.
type peerUse struct {
	used             *usage // where it is counted
	foreign          bool   // of the peer
	inFlight         int
	requests, tokens float64 // since the other router's start
}

func newSharing(k *Keys, bus Bus, id string, log *slog.Logger) *sharing {
	return &sharing{
		keys: k, bus: bus, id: id, log: log, peers: map[string]*peer{}, newcomer: make(chan struct{}, 1),
	}
}

// Share makes limits hold for all routers together until ctx ends: each of them tells the use
// of its clients. id is this router's, and new for each process.
func (k *Keys) Share(ctx context.Context, bus Bus, id string, log *slog.Logger) error {
	s := newSharing(k, bus, id, log)
	tick := time.NewTicker(wholeEvery)
	defer tick.Stop()
	rested := time.NewTimer(0)
	defer rested.Stop()
	var stop func()
	var wake chan struct{} // nil for tellEvery after a message
	for first := true; ; first = false {
		if stop == nil {
			var err error
			if stop, err = bus.SubscribeOwn(subjectUse, s.onMessage); err != nil {
				log.Warn("cannot hear what clients use at other routers; trying again", "error", err)
			}
		}
		if first {
			s.publish(time.Now(), flagWhole|flagFull)
		}
		select {
		case <-ctx.Done():
			if stop != nil {
				stop()
			}
			s.publish(time.Now(), flagWhole|flagLast)
			s.forgetAll()
			return nil
		case now := <-tick.C:
			s.expire(now)
			s.publish(now, flagWhole)
		case <-s.newcomer:
			s.publish(time.Now(), flagWhole|flagFull)
		case <-wake:
			s.publish(time.Now(), 0)
			wake = nil
			rested.Reset(tellEvery)
		case <-rested.C:
			wake = k.group.wake
		}
	}
}

// publish tells of the names that have changed, or of all.
func (s *sharing) publish(now time.Time, flags byte) {
	g := s.keys.group
	g.mu.Lock()
	s.changed, g.changed = g.changed, s.changed[:0]
	g.mu.Unlock()
	keys := s.changed
	if flags&flagWhole != 0 {
		keys = slices.Concat(s.keys.set.Load().keys, s.keys.tokens.all())
	}
	whole := flags&flagWhole != 0
	s.list(now, keys, func(e *useEntry) bool { return !whole || e.inUse() || flags&flagFull != 0 && e.everUsed() })
	if whole && len(s.entries) > maxEntries {
		// No part says anything of names that it does not list, so all are listed.
		flags &^= flagWhole
		s.list(now, keys, (*useEntry).everUsed)
	}
	rest := s.entries
	for ; len(rest) > maxEntries; rest = rest[maxEntries:] {
		s.send(0, rest[:maxEntries])
	}
	s.send(flags, rest)
}

// list makes the entries of keys.
func (s *sharing) list(now time.Time, keys []*Key, told func(*useEntry) bool) {
	s.entries = s.entries[:0]
	for _, key := range keys {
		if e := key.use(now); told(&e) {
			s.entries = append(s.entries, e)
		}
	}
}

// send publishes a message.
func (s *sharing) send(flags byte, names []useEntry) {
	s.number++
	m := useMessage{id: []byte(s.id), number: s.number, flags: flags, names: names}
	s.buf = m.append(s.buf[:0])
	_ = s.bus.PublishOwn(subjectUse, s.buf) // a message that does not come back has told nobody
}

// onMessage counts the use at another router. A message of this router's own comes back behind all
// that others have said before it.
func (s *sharing) onMessage(owner string, data []byte) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	m := &s.message
	if err := m.decode(data); err != nil || !codec.Owned(m.id, owner) {
		return
	}
	if string(m.id) == s.id {
		s.toldLocked(now)
		return
	}
	p := s.peers[string(m.id)]
	if p == nil {
		if m.flags&flagLast != 0 || !s.members.Add(owner) {
			return
		}
		p = &peer{owner: owner, foreign: !codec.Owned([]byte(s.id), owner), names: map[string]*peerUse{}}
		s.peers[string(m.id)] = p
		s.resizeLocked()
		s.log.Info("limits of clients are shared with another router", "router", string(m.id), "routers", len(s.peers)+1)
		select {
		case s.newcomer <- struct{}{}:
		default:
		}
	}
	if m.number <= p.number || p.owner != owner {
		return
	}
	p.number, p.heard = m.number, now
	listed := make(map[string]bool, len(m.names))
	for i := range m.names {
		if key := s.keys.named(m.names[i].name); key != nil {
			listed[key.Name] = true
			p.count(key, &m.names[i], now)
		}
	}
	if m.flags&flagWhole != 0 {
		for name, u := range p.names {
			if listed[name] {
				continue
			}
			u.setInFlight(0)
			if s.keys.named([]byte(name)) == nil {
				delete(p.names, name)
			}
		}
	}
	p.complete = p.complete || m.flags&flagFull != 0
	if m.flags&flagLast != 0 {
		s.forgetLocked(string(m.id))
	}
}

// toldLocked notes that this router's message has reached the others.
func (s *sharing) toldLocked(now time.Time) {
	if now.Sub(s.echo) > silence {
		s.up = now
	}
	s.echo = now
	for i := range s.message.names {
		if e := &s.message.names[i]; s.keys.named(e.name) != nil {
			s.keys.named(e.name).told(e)
		}
	}
	s.keys.group.tell()
}

// count counts the use of one name.
func (p *peer) count(key *Key, e *useEntry, now time.Time) {
	u := p.names[key.Name]
	if u == nil || u.used != key.used {
		if u != nil {
			u.setInFlight(0)
		}
		known := u == nil && p.complete
		u = &peerUse{used: key.used, foreign: p.foreign}
		p.names[key.Name] = u
		if !known { // this router is new: it begins with the level there
			key.lower(now, e, p.foreign)
			u.requests, u.tokens = e.requests, e.tokens
		}
	}
	// After an outage, use that has come back since then is no more than history.
	key.usedElsewhere(now, min(e.requests-u.requests, e.missingRequests), min(e.tokens-u.tokens, e.missingTokens), p.foreign)
	u.requests, u.tokens = e.requests, e.tokens
	u.setInFlight(e.inFlight)
}

func (u *peerUse) setInFlight(n int) {
	u.used.mu.Lock()
	if u.foreign {
		u.used.claimed += n - u.inFlight
	} else {
		u.used.elsewhere += n - u.inFlight
	}
	u.used.mu.Unlock()
	u.inFlight = n
}

// expire forgets silent routers. While nothing is heard at all, they count on as sharers of the
// limits, but not with their requests: nobody can tell when these end.
func (s *sharing) expire(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.members.Expire(now)
	for id, p := range s.peers {
		switch {
		case now.Sub(p.heard) <= silence:
		case now.Sub(s.echo) > silence || now.Sub(s.up) <= silence:
			p.ended()
		default:
			s.log.Warn("another router that shares the limits of clients has fallen silent", "router", id)
			s.forgetLocked(id)
		}
	}
}

// ended counts the end of all requests of a router.
func (p *peer) ended() {
	for _, u := range p.names {
		u.setInFlight(0)
	}
}

func (s *sharing) forgetLocked(id string) {
	p := s.peers[id]
	p.ended()
	delete(s.peers, id)
	s.members.Remove(p.owner)
	s.resizeLocked()
}

func (s *sharing) forgetAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.peers {
		s.forgetLocked(id)
	}
}

func (s *sharing) resizeLocked() {
	routers, of := s.members.Shares(s.id)
	s.keys.group.shares.Store(uint64(of)<<32 | uint64(routers))
}
