package session

import (
	"math"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
)

// Table knows the sessions of a router's ranks.
type Table struct {
	mu       sync.Mutex
	sessions []session // by place; guarded by mu, as is all below
	hand     int       // place of the session with the pause that was looked at last
	gaps     [classes]gaps

	ranks atomic.Pointer[[]*rank] // replaced, never changed
}

// session is one session's latest rank and its pages there.
type session struct {
	key     uint64  // 0: there was none at this place
	rank    int32   // -1: its pages are lost
	running int32   // requests in flight
	turns   int32   // requests that have been sent
	counted int     // bin of the pause up to which gaps know of it
	used    float64 // when the last answer ended
	shared  float64 // tokens at the beginning that other sessions had before
	tokens  float64 // behind these, of the longest prompt and its answer
	live    float64 // of tokens, the expected number that will be needed again
}

// rank sums up the sessions of one rank.
type rank struct{ live atomic.Uint64 }

const (
	// placeBits bounds a table to some 2 MiB: its sessions are at the places that the low bits of
	// their keys name, so that a look-up hashes nothing.
	placeBits = 15
	// looks are the pauses that each request looks at, so that the table notices sessions that
	// never come back. 1,000 sessions at the first places are looked through in 250 requests.
	looks = 4
)

// New returns an empty table.
func New() *Table {
	t := &Table{}
	t.ranks.Store(&[]*rank{})
	return t
}

// Clear forgets the pages of a rank, of which all sessions are lost.
func (t *Table) Clear(at int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.sessions {
		if s := &t.sessions[i]; s.key != 0 && s.rank == int32(at) {
			t.weigh(s, 0)
			s.rank, s.tokens = -1, 0
		}
	}
}

// Live is the number of tokens at a rank that sessions will need again. It is more than the
// rank's pool where not all of them fit.
func (t *Table) Live(at int) float64 {
	if ranks := *t.ranks.Load(); at < len(ranks) {
		return math.Float64frombits(ranks[at].live.Load())
	}
	return 0
}

// rankLocked returns a rank.
func (t *Table) rankLocked(at int32) *rank {
	for int(at) >= len(*t.ranks.Load()) {
		ranks := append(slices.Clone(*t.ranks.Load()), &rank{})
		t.ranks.Store(&ranks)
	}
	return (*t.ranks.Load())[at]
}

// Home returns the rank with a session's latest pages, and its part of the rank's Live; -1 where
// there is none.
func (t *Table) Home(key uint64) (at int, live float64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.find(key); s != nil {
		return int(s.rank), s.live
	}
	return -1, 0
}

// find returns a session, or nil.
func (t *Table) find(key uint64) *session {
	at := place(key)
	if at >= len(t.sessions) || t.sessions[at].key != key || key == 0 {
		return nil
	}
	return &t.sessions[at]
}

func place(key uint64) int { return int(key & (1<<placeBits - 1)) }

// Sent notes a request that goes to a rank: a prompt of so many tokens, of which some rank held
// the first held ones. Key 0 is a request without a session.
func (t *Table) Sent(now float64, key uint64, to int, tokens, held float64) {
	if key == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for range looks {
		t.look(now)
	}
	s := t.find(key)
	if s == nil {
		s = t.room(place(key))
		*s = session{key: key, rank: -1, shared: held}
	} else if s.running == 0 {
		b := bin(now - s.used)
		t.gapsOf(s).ended(min(s.counted, b), b)
	}
	t.weigh(s, 0)
	s.rank = int32(to)
	s.shared = min(s.shared, tokens)
	s.tokens = max(s.tokens, tokens-s.shared)
	s.running++
	s.turns++
	t.weigh(s, 1)
}

// Ended notes the end of a request that Sent noted; its answer had so many tokens.
func (t *Table) Ended(now float64, key uint64, answer float64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.find(key)
	if s == nil {
		return
	}
	s.tokens += answer
	if s.running--; s.running <= 0 {
		s.running, s.used, s.counted = 0, now, 0
	}
	t.weigh(s, t.gapsOf(s).returns(0))
}

// gapsOf returns the pauses of sessions with about as many turns.
func (t *Table) gapsOf(s *session) *gaps {
	return &t.gaps[min(bits.Len32(uint32(s.turns)), classes)-1]
}

// weigh sets the chance that a session's tokens are needed again.
func (t *Table) weigh(s *session, chance float64) {
	live := s.tokens * chance
	if s.rank >= 0 && live != s.live {
		r := t.rankLocked(s.rank)
		r.live.Store(math.Float64bits(max(math.Float64frombits(r.live.Load())+live-s.live, 0)))
	}
	s.live = live
}

// look brings the knowledge of the next session's pause up to date.
func (t *Table) look(now float64) {
	if len(t.sessions) == 0 {
		return
	}
	t.hand = (t.hand + 1) % len(t.sessions)
	s := &t.sessions[t.hand]
	if s.key == 0 || s.running > 0 {
		return
	}
	if b := bin(now - s.used); b > s.counted {
		g := t.gapsOf(s)
		g.outlasted(s.counted, b)
		s.counted = b
		t.weigh(s, g.returns(b))
	}
}

// room makes room for a new session at a place.
func (t *Table) room(at int) *session {
	if need := at + 1 - len(t.sessions); need > 0 {
		t.sessions = append(t.sessions, make([]session, need)...)
	}
	s := &t.sessions[at]
	t.weigh(s, 0)
	return s
}
