package routing

import (
	"encoding/binary"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/dataplane/routing/turns"
	"github.com/warmpath/warmpath/radix"
)

// KnownSessions is the router's knowledge of sessions. A choice only reads it; dispatches and the
// ends of answers add to it. The methods of a nil KnownSessions do nothing.
type KnownSessions struct {
	index   *radix.Index // hashes ids
	table   *turns.Table
	started time.Time
	sources [sessionSources]atomic.Uint64 // requests by the source of their session
	kinds   [turns.Kinds]atomic.Uint64    // requests by their place in the session
}

// TurnKind is a prompt's place in its session.
type TurnKind = turns.Kind

// NewKnownSessions returns an empty table. Its hashes are keyed by the index's seed.
func NewKnownSessions(index *radix.Index) *KnownSessions {
	return &KnownSessions{index: index, table: turns.New(uint64(index.Digest([]byte("sessions")))), started: time.Now()}
}

// sessionUse is the part of a decision in the knowledge of sessions.
type sessionUse struct {
	name    uint64 // Prompt.Session
	running bool   // the request is noted, and its end is not
}

// turnMatch is the place of a prompt in its session.
type turnMatch struct {
	prefixes []uint64 // hashes of the prompt's beginnings
}

// openTokens and openBytes are the end of a prompt that the next turn may not repeat: the beginning
// of the answer as the chat template writes it, and the bracket behind the messages.
const (
	openTokens = 8
	openBytes  = 4
)

// find finds the place of a prompt in its session. a may be nil.
func (k *KnownSessions) find(s *Scratch, p *Prompt, d *Decision, a *ApproxIndex) {
	if k == nil {
		return
	}
	prefixes := s.turn.prefixes[:0]
	if a != nil && !p.Opaque {
		a.key(&s.approx, p, s.ranks[0])
		units := (len(p.Text) - openBytes) / unitBytes
		if p.Exact {
			units = (len(p.Tokens) - openTokens) / unitTokens
		}
		keys := s.approx.keys
		prefixes = turns.AppendPrefixes(prefixes, k.table, keys[:max(min(units, len(keys)), 0)])
	}
	s.turn.prefixes = prefixes
	d.Turn = k.table.Find(prefixes, p.Session, p.SessionSource == SessionResponse)
}

// begin notes that a prompt is sent.
func (k *KnownSessions) begin(m *turnMatch, p *Prompt, d *Decision, now time.Time) {
	if k == nil || d.session.running {
		return
	}
	k.table.Begin(&d.Turn, m.prefixes, k.since(now))
	d.session.running = true
	k.kinds[d.Turn.Kind].Add(1)
	k.sources[sourceOf(&d.Turn, p)].Add(1)
}

// End notes the end of an answer of so many tokens, 0 unknown. A second call has no effect.
func (k *KnownSessions) End(d *Decision, answer int, now time.Time) {
	if k == nil || !d.session.running {
		return
	}
	d.session.running = false
	k.table.End(&d.Turn, k.since(now))
}

func (k *KnownSessions) since(now time.Time) int64 { return int64(now.Sub(k.started)) }

// sourceOf returns the source that told the session of a turn.
func sourceOf(f *turns.Turn, p *Prompt) SessionSource {
	switch {
	case f.Kind == turns.None:
		return NoSession
	case f.Named:
		return p.SessionSource
	}
	return SessionPrefix
}

// NameAnswer notes the id of an answer: the next turn may name its session by it.
func (k *KnownSessions) NameAnswer(p *Prompt, d *Decision, id []byte) {
	if k == nil || len(id) == 0 {
		return
	}
	next := *p
	next.NameSession(id, SessionResponse)
	k.table.Name(&d.Turn, next.Session)
}

// ID returns a session's or branch's number as logs and the operator API show it: a keyed hash, by
// which no name can be found. It is 0 for none.
func (k *KnownSessions) ID(number uint64) uint64 {
	if k == nil || number == 0 {
		return 0
	}
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], number)
	return uint64(k.index.Digest(b[:]))
}

// SessionStats counts sessions.
type SessionStats struct {
	turns.Stats                        // sessions with a request in the last hour
	Sources     [sessionSources]uint64 // requests by the source of their session
	Kinds       [turns.Kinds]uint64    // requests by their place in the session
}

// liveFor is the time after its last request in which a session is counted as live. Agents' pauses
// are seconds to minutes.
const liveFor = time.Hour

// Stats counts the sessions and requests.
func (k *KnownSessions) Stats(now time.Time) (s SessionStats) {
	if k == nil {
		return s
	}
	s.Stats = k.table.Stats(k.since(now.Add(-liveFor)))
	for i := range s.Sources {
		s.Sources[i] = k.sources[i].Load()
	}
	for i := range s.Kinds {
		s.Kinds[i] = k.kinds[i].Load()
	}
	return s
}
