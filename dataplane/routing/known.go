package routing

import (
	"encoding/binary"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/dataplane/routing/turns"
)

// KnownSessions is the router's knowledge of sessions. A choice only reads it; dispatches and the
// ends of answers add to it. The methods of a nil KnownSessions do nothing.
type KnownSessions struct {
	table   *turns.Table
	started time.Time
	sources [sessionSources]atomic.Uint64 // requests by the source of their session
	kinds   [turns.Kinds]atomic.Uint64    // requests by their place in the session
}

// TurnKind is a prompt's place in its session.
type TurnKind = turns.Kind

// NewKnownSessions returns an empty table. seed keys its hashes.
func NewKnownSessions(seed uint64) *KnownSessions {
	return &KnownSessions{table: turns.New(seed), started: time.Now()}
}

// turnMatch is the place of a prompt in its session.
type turnMatch struct {
	prefixes []uint64 // hashes of the prompt's beginnings
	found    turns.Turn
}

// openTokens and openBytes are the end of a prompt that the next turn may not repeat: the beginning
// of the answer as the chat template writes it, and the bracket behind the messages.
const (
	openTokens = 8
	openBytes  = 4
)

// findTurn finds the place of a prompt in its session.
func (r *Router) findTurn(s *Scratch, p *Prompt, d *Decision) {
	m := &s.turn
	m.prefixes, m.found = m.prefixes[:0], turns.Turn{}
	if r.Known == nil {
		return
	}
	// The prompt of a turn that refers to an answer has the new part only.
	if r.Approx != nil && !p.Opaque && p.SessionSource != SessionResponse {
		r.Approx.key(&s.approx, p, s.ranks[0])
		units := (len(p.Text) - openBytes) / unitBytes
		if p.Exact {
			units = (len(p.Tokens) - openTokens) / unitTokens
		}
		keys := s.approx.keys
		m.prefixes = turns.AppendPrefixes(m.prefixes, r.Known.table, keys[:max(min(units, len(keys)), 0)])
	}
	m.found = r.Known.table.Find(m.prefixes, p.Session)
	d.Turn = m.found
}

// begin notes that a prompt is sent.
func (k *KnownSessions) begin(m *turnMatch, p *Prompt, d *Decision, now time.Time) {
	if k == nil || d.running {
		return
	}
	k.table.Begin(&d.Turn, m.prefixes, k.since(now))
	d.running = true
	k.kinds[d.Turn.Kind].Add(1)
	k.sources[sourceOf(&d.Turn, p)].Add(1)
}

// end notes the end of an answer, once.
func (k *KnownSessions) end(d *Decision, answer int, now time.Time) {
	if k == nil || !d.running {
		return
	}
	d.running = false
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
func (r *Router) NameAnswer(p *Prompt, d *Decision, id []byte) {
	if r.Known == nil || len(id) == 0 {
		return
	}
	next := *p
	next.NameSession(id, SessionResponse)
	r.Known.table.Name(&d.Turn, next.Session)
}

// SessionID returns a session's number as logs and the operator API show it: a keyed hash, so that no
// name can be found by it. It is 0 for none.
func (r *Router) SessionID(session uint64) uint64 {
	if session == 0 {
		return 0
	}
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], session)
	return uint64(r.matcher.index.Digest(b[:]))
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
