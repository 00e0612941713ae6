package routing

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/routing/session"
	"github.com/warmpath/warmpath/dataplane/routing/turns"
	"github.com/warmpath/warmpath/radix"
)

// KnownSessions is the router's knowledge of sessions. A choice only reads it; dispatches and the
// ends of answers add to it. The methods of a nil KnownSessions do nothing.
type KnownSessions struct {
	index   *radix.Index // hashes ids
	table   *turns.Table
	pages   *session.Table // by branch
	started time.Time
	sources [sessionSources]atomic.Uint64 // requests by the source of their session
	kinds   [turns.Kinds]atomic.Uint64    // requests by their place in the session
	pauses  [pauseBins]atomic.Uint64      // between an answer and the next turn, by length
}

// TurnKind is a prompt's place in its session.
type TurnKind = turns.Kind

// NewKnownSessions returns an empty table. Its hashes are keyed by the index's seed.
func NewKnownSessions(index *radix.Index) *KnownSessions {
	return &KnownSessions{
		index: index, started: time.Now(), table: turns.New(uint64(index.Digest([]byte("sessions")))), pages: session.New(),
	}
}

// sessionUse is the part of a decision in the knowledge of sessions.
type sessionUse struct {
	name    uint64 // Prompt.Session
	running bool   // the request is noted, and its end is not
}

// turnMatch is the place of a prompt in its session.
type turnMatch struct {
	prefixes []uint64 // hashes of the prompt's beginnings
	unit     int      // tokens from one to the next
	held     float64  // leading tokens that some candidate holds
}

// openTokens and openBytes are the end of a prompt that the next turn may not repeat: the beginning
// of the answer as the chat template writes it, and the bracket behind the messages.
const (
	openTokens = 8
	openBytes  = 4
)

// find finds the place of a prompt in its session. a may be nil.
func (k *KnownSessions) find(f *facts, s *Scratch, p *Prompt, d *Decision, a *ApproxIndex, x *matcher) {
	if k == nil {
		return
	}
	k.prefixes(s, p, d, f.ranks[0], a, x)
	d.Turn = k.table.Find(s.turn.prefixes, p.Session, p.SessionSource == SessionResponse)
	if d.Turn.Exact {
		k.stay(f, s, &d.Turn)
	}
}

// prefixes fills in the prefixes of a prompt. Where events name blocks by their ids, the blocks are
// hashed for the index anyway; else the keys of the approximate tree do.
func (k *KnownSessions) prefixes(s *Scratch, p *Prompt, d *Decision, rank *worker.Rank, a *ApproxIndex, x *matcher) {
	m := &s.turn
	m.prefixes, m.unit = m.prefixes[:0], unitTokens
	switch {
	case p.Opaque:
	case d.block > 0:
		perUnit := max(unitTokens/d.block, 1)
		m.unit = perUnit * d.block
		blocks := x.hashAll(s, p, d.block)
		units := max(len(p.Tokens)-openTokens, 0) / m.unit
		m.prefixes = turns.AppendBlockPrefixes(m.prefixes, k.table, uint64(d.scope), blocks[:units*perUnit], perUnit)
	case a != nil:
		a.key(s, p, rank)
		units := (len(p.Text) - openBytes) / unitBytes
		if p.Exact {
			units = (len(p.Tokens) - openTokens) / unitTokens
		}
		keys := s.keys
		m.prefixes = turns.AppendPrefixes(m.prefixes, k.table, keys[:max(min(units, len(keys)), 0)])
	}
}

// stay credits the rank of a branch's last turn, which its events told of before they stopped:
// the approximate tree has not seen it. The next turn will be in the tree.
func (k *KnownSessions) stay(f *facts, s *Scratch, t *turns.Turn) {
	if !slices.Contains(f.approx.sources, Answers) {
		return
	}
	home, _ := k.pages.Home(uint64(t.ID))
	for i, rank := range f.ranks {
		if f.approx.sources[i] == Answers && int(rank.Number()) == home {
			f.approx.tokens[i] = max(f.approx.tokens[i], t.Units()*s.turn.unit)
		}
	}
}

// price fills in the tokens of other branches at the candidates of a prompt.
func (k *KnownSessions) price(f *facts, s *Scratch, d *Decision) {
	if k == nil {
		return
	}
	held := 0
	home, own := -1, 0.0
	if id := d.Turn.ID; id != 0 {
		home, own = k.pages.Home(uint64(id))
	}
	for i, rank := range f.ranks {
		c := &f.candidates[i]
		live := k.pages.Live(int(rank.Number()))
		if int(rank.Number()) == home {
			live = max(live-own, 0)
		}
		c.Live = float32(live)
		held = max(held, c.Cached, c.Predicted)
	}
	s.turn.held = float64(held)
}

// begin notes that a prompt is sent.
func (k *KnownSessions) begin(m *turnMatch, p *Prompt, d *Decision, now time.Time) {
	if k == nil || d.session.running {
		return
	}
	d.Turn.Rank, d.Turn.Exact = d.Rank.Number(), d.Source == Events
	k.table.Begin(&d.Turn, m.prefixes, k.since(now))
	if p := d.Turn.Paused; p > 0 {
		k.pauses[pauseBin(p)].Add(1)
	}
	d.session.running = true
	k.pages.Sent(k.seconds(now), uint64(d.Turn.ID), int(d.Rank.Number()), float64(d.PromptTokens), m.held)
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
	k.pages.Ended(k.seconds(now), uint64(d.Turn.ID), float64(answer))
}

func (k *KnownSessions) since(now time.Time) int64     { return int64(now.Sub(k.started)) }
func (k *KnownSessions) seconds(now time.Time) float64 { return now.Sub(k.started).Seconds() }

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
func (k *KnownSessions) NameAnswer(p *Prompt, d *Decision, id string) {
	if k != nil {
		k.table.Name(&d.Turn, p.sessionKey(SessionKey(id)))
	}
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
	// Pauses are those between an answer and the next turn, by PauseBounds.
	Pauses [pauseBins]uint64
	Pause  time.Duration // the median of them, as a bound
}

// liveFor is the time after its last request in which a session is counted as live. Agents' pauses
// are seconds to minutes.
const liveFor = time.Hour

// Stats counts the sessions and requests.
func (k *KnownSessions) Stats(now time.Time) (s SessionStats) {
	if k == nil {
		return s
	}
	since := k.since(now.Add(-liveFor))
	s.Stats = k.table.Stats(since)
	for i := range s.Sources {
		s.Sources[i] = k.sources[i].Load()
	}
	for i := range s.Kinds {
		s.Kinds[i] = k.kinds[i].Load()
	}
	s.countPauses(k)
	return s
}

// pauseBins are powers of two from 1/16 s; the last one has all longer pauses.
const pauseBins = 18

// PauseBounds are the upper bounds of SessionStats.Pauses but the last.
func PauseBounds() (bounds [pauseBins - 1]time.Duration) {
	for i := range bounds {
		bounds[i] = time.Second / 16 << i
	}
	return bounds
}

func pauseBin(nanoseconds int64) int {
	return min(bits.Len64(uint64(nanoseconds-1)/uint64(time.Second/16)), pauseBins-1)
}

// countPauses fills in the pauses and their median.
func (s *SessionStats) countPauses(k *KnownSessions) {
	all, seen := uint64(0), uint64(0)
	for i := range s.Pauses {
		s.Pauses[i] = k.pauses[i].Load()
		all += s.Pauses[i]
	}
	for i, bound := range PauseBounds() {
		if seen += s.Pauses[i]; all > 0 && 2*seen >= all {
			s.Pause = bound
			return
		}
	}
}

// OfRank returns the sessions with their last request at a rank, and the tokens there that sessions
// are expected to need again.
func (k *KnownSessions) OfRank(s *SessionStats, rank *worker.Rank) (branches int, live float64) {
	if k == nil {
		return 0, 0
	}
	return s.ByRank[rank.Number()], k.pages.Live(int(rank.Number()))
}

// ExplainedTurn is a prompt's place in its session, as the operator API shows it.
type ExplainedTurn struct {
	Session, Branch uint64 // by KnownSessions.ID; 0 where they begin with this prompt
	Kind            TurnKind
	Source          SessionSource
	Turns           int // of the branch before this one
	Shared          int // leading tokens that other branches have too
	// Pause is the usual time from an answer to the branch's next turn; 0 is unknown.
	Pause time.Duration
	// Home is the rank with the branch's latest pages, "" unknown, and Own its part of that
	// rank's live tokens.
	Home string
	Own  float64
}

// explain returns the session of a choice.
func (k *KnownSessions) explain(s *Scratch, p *Prompt, d *Decision, ranks []*worker.Rank) ExplainedTurn {
	if k == nil {
		return ExplainedTurn{}
	}
	f := &d.Turn
	e := ExplainedTurn{
		Session: k.ID(f.Session), Branch: k.ID(uint64(f.ID)), Kind: f.Kind, Source: sourceOf(f, p), Turns: f.Turns,
		Shared: f.Shared * s.turn.unit, Pause: time.Duration(f.Pause),
	}
	if f.ID == 0 {
		return e
	}
	home, own := k.pages.Home(uint64(f.ID))
	for _, rank := range ranks {
		if int(rank.Number()) == home {
			e.Home, e.Own = rank.ID(), own
		}
	}
	return e
}

var _ worker.Observer = (*KnownSessions)(nil)

// Up implements worker.Observer: each rank begins without pages, and without the sessions of a rank
// that had its number before.
func (k *KnownSessions) Up(w *worker.Worker, _ *worker.Info) {
	k.Clear(w)
	for _, rank := range w.Ranks() {
		k.table.Leave(rank.Number())
	}
}

// Down implements worker.Observer: the pages of the worker's ranks are gone. The sessions are not:
// they will come back.
func (k *KnownSessions) Down(w *worker.Worker) { k.Clear(w) }

// Clear notes that the caches of a worker are empty.
func (k *KnownSessions) Clear(w *worker.Worker) {
	for _, rank := range w.Ranks() {
		k.ClearRank(rank)
	}
}

// ClearRank notes that the cache of a rank is empty: it was flushed, or belongs to another process.
func (k *KnownSessions) ClearRank(rank *worker.Rank) {
	if k != nil {
		k.pages.Clear(int(rank.Number()))
	}
}
