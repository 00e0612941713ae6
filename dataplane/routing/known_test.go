package routing_test

import (
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/ingest"
	"github.com/warmpath/warmpath/dataplane/routing"
	"github.com/warmpath/warmpath/dataplane/routing/turns"
)

// known gives a router the knowledge of sessions.
func known(f *fleet, r *routing.Router) *routing.KnownSessions {
	k := routing.NewKnownSessions(f.index)
	for _, rank := range f.ranks {
		k.Up(rank.Worker, rank.Worker.Info())
	}
	r.Known = k
	return k
}

// sessions is a router that knows sessions, with requests one after the other.
type sessions struct {
	*fleet
	router *routing.Router
	known  *routing.KnownSessions
}

func newSessions(t testing.TB, ranks int) *sessions {
	t.Helper()
	nodes := make([]*node, ranks)
	for i := range nodes {
		nodes[i] = tiny()
	}
	f := newFleet(t, nodes...)
	f.learns()
	r := f.with(f.spy)
	r.Approx = f.router.Approx
	return &sessions{fleet: f, router: r, known: known(f, r)}
}

// begin sends a prompt to a rank.
func (s *sessions) begin(rank int, p *routing.Prompt) routing.Decision {
	s.t.Helper()
	s.spy.pick = rank
	d, err := s.router.Pick(&s.scratch, p, nil)
	require.NoError(s.t, err)
	s.router.Withdraw(s.router.Dispatch(&s.scratch, p, &d))
	return d
}

// send sends a prompt to a rank, and has its answer of so many tokens.
func (s *sessions) send(rank int, p *routing.Prompt, answer int) routing.Decision {
	s.t.Helper()
	d := s.begin(rank, p)
	s.known.End(&d, answer, time.Now())
	s.router.Failed(&s.scratch, &d)
	return d
}

// turn returns the prompt of a user's turn: the one before, an answer and a question.
func turn(user uint32, n int) *routing.Prompt {
	ids := tokens(user, 1000)
	for i := range n {
		ids = append(ids, tokens(user*1000+uint32(i), 400)...)
	}
	return prompt(ids)
}

// TestKnownPages: the pages of a session are where its last turn went, and are dearer to others than
// to itself.
func TestKnownPages(t *testing.T) {
	s := newSessions(t, 2)
	for n := range 3 {
		s.send(0, turn(1, n), 50)
	}
	own, other := s.router.Explain(&s.scratch, turn(1, 3), 0), s.router.Explain(&s.scratch, turn(2, 0), 0)
	require.Equal(t, 3, own.Turn.Turns)
	require.Equal(t, routing.SessionPrefix, own.Turn.Source)
	require.Equal(t, s.ranks[0].ID(), own.Turn.Home)
	require.Zero(t, own.Ranks[0].Candidate.Live, "its own pages are no loss to it")
	require.InDelta(t, own.Turn.Own, other.Ranks[0].Candidate.Live, 1e-6)
	require.Positive(t, other.Ranks[0].Candidate.Live)
	require.Zero(t, other.Ranks[1].Candidate.Live)

	running := s.begin(1, turn(1, 3))
	other = s.router.Explain(&s.scratch, turn(2, 0), 0)
	require.Zero(t, other.Ranks[0].Candidate.Live, "pages that a session has left are missed by nobody")
	require.InDelta(t, 1000+3*400+50, other.Ranks[1].Candidate.Live, 100)
	s.known.End(&running, 50, time.Now())
	own = s.router.Explain(&s.scratch, turn(1, 4), 0)
	require.Equal(t, s.ranks[1].ID(), own.Turn.Home)
}

// TestSessionsByBlocks: where events name blocks, these tell the session, whatever their size, and the
// prompt is hashed once. Without events the keys of the approximate tree do.
func TestSessionsByBlocks(t *testing.T) {
	for _, block := range []int{0, 1, 4, 24, 32, 64, 300} {
		t.Run(strconv.Itoa(block), func(t *testing.T) {
			s := newSessions(t, 2)
			for _, rank := range s.ranks {
				rank.SetExact(block > 0)
				prove(rank)
			}
			s.shapes = []ingest.Shape{{Model: model, BlockSize: block}}
			if block == 0 {
				s.shapes = nil
			}
			for n := range 5 {
				for user := range uint32(2) {
					p := turn(user+1, n)
					if block > 0 && n%2 == 1 { // the client's connection has them of the turn before
						p.Hashes, p.Block = s.index.AppendHashes(nil, p.Tokens, block), block
						p.Hashes = p.Hashes[:len(p.Hashes)-n%3]
					}
					d := s.send(int(user), p, 50)
					require.Equal(t, n, d.Turn.Turns, "user %d", user)
					require.Equal(t, block == 0, s.scratch.Keyed())
				}
			}
			own := s.router.Explain(&s.scratch, turn(1, 5), 0)
			require.Equal(t, s.ranks[0].ID(), own.Turn.Home)
			other := turn(1, 5)
			other.Salt = "another"
			require.Zero(t, s.router.Explain(&s.scratch, other, 0).Turn.Turns)
			other.Tokens = other.Tokens[:1]
			require.Equal(t, turns.None, s.router.Explain(&s.scratch, other, 0).Turn.Kind)
		})
	}
}

// TestLostPages: a flush, a restart and the end of a worker take the pages, not the session.
func TestLostPages(t *testing.T) {
	for name, lose := range map[string]func(s *sessions){
		"flush":   func(s *sessions) { s.known.Clear(s.ranks[0].Worker) },
		"restart": func(s *sessions) { s.known.ClearRank(s.ranks[0]) },
		"down":    func(s *sessions) { s.known.Down(s.ranks[0].Worker) },
		"anew":    func(s *sessions) { s.known.Up(s.ranks[0].Worker, s.ranks[0].Worker.Info()) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSessions(t, 2)
			for n := range 3 {
				s.send(0, turn(1, n), 50)
			}
			lose(s)
			x := s.router.Explain(&s.scratch, turn(2, 0), 0)
			require.Zero(t, x.Ranks[0].Candidate.Live)
			x = s.router.Explain(&s.scratch, turn(1, 3), 0)
			require.Equal(t, 3, x.Turn.Turns)
			require.Empty(t, x.Turn.Home)
			s.send(0, turn(1, 3), 50)
		})
	}
}

// TestFailedAttempts of one request are one turn.
func TestFailedAttempts(t *testing.T) {
	s := newSessions(t, 2)
	s.send(0, turn(1, 0), 50)
	for attempt := range 3 {
		s.spy.pick = attempt % 2
		p := turn(1, 1)
		d, err := s.router.Pick(&s.scratch, p, nil)
		require.NoError(t, err)
		s.router.Withdraw(s.router.Dispatch(&s.scratch, p, &d))
		s.router.Failed(&s.scratch, &d)
		s.router.Failed(&s.scratch, &d)
	}
	st := s.known.Stats(time.Now())
	require.Equal(t, 0, st.Running)
	x := s.router.Explain(&s.scratch, turn(1, 2), 0)
	require.Equal(t, 2, x.Turn.Turns)
}

// TestOpaquePrompts have no ids: only their name tells the session.
func TestOpaquePrompts(t *testing.T) {
	s := newSessions(t, 1)
	for n := range 3 {
		p := turn(1, n)
		p.Opaque = true
		d := s.send(0, p, 50)
		require.Zero(t, d.Turn.Session)
		p.NameSession([]byte("s"), routing.SessionHeader)
		d = s.send(0, p, 50)
		require.Equal(t, n, d.Turn.Turns)
		require.NotZero(t, d.Turn.Session)
	}
}

// TestTextIsKnown: turns without token ids are found by their text.
func TestTextIsKnown(t *testing.T) {
	s := newSessions(t, 1)
	all := words(1, 8000)
	for n := range 4 {
		d := s.send(0, text(all[:2000+n*1500]), 50)
		require.Equal(t, n, d.Turn.Turns)
	}
}

// TestSaltsAreApart: equal prompts and names of different salts are of different sessions.
func TestSaltsAreApart(t *testing.T) {
	s := newSessions(t, 1)
	seen := map[uint64]bool{}
	for _, salt := range []string{"", "a", "b"} {
		for _, name := range []string{"", "s"} {
			p := turn(1, 0)
			p.Salt = salt
			p.Tokens = p.Tokens[:1000-len(name)*40]
			p.NameSession([]byte(name), routing.SessionHeader)
			d := s.send(0, p, 50)
			require.False(t, seen[d.Turn.Session], "%q %q", salt, name)
			seen[d.Turn.Session] = true
		}
	}
}

// TestSessionsAtOnceAreKnown has many users at once, while ranks lose their pages.
func TestSessionsAtOnceAreKnown(t *testing.T) {
	s := newSessions(t, 4)
	var all sync.WaitGroup
	for user := range uint32(8) {
		all.Go(func() {
			var scratch routing.Scratch
			r := s.with(&spy{pick: int(user % 4)})
			r.Approx, r.Known = s.router.Approx, s.known
			for n := range 20 {
				p := turn(user+1, n)
				d, err := r.Pick(&scratch, p, nil)
				if err != nil {
					t.Error(err)
					return
				}
				r.Withdraw(r.Dispatch(&scratch, p, &d))
				s.known.End(&d, 10, time.Now())
				if n%7 == 0 {
					s.known.Clear(s.ranks[user%4].Worker)
				}
				if d.Turn.Turns != n {
					t.Errorf("user %d: turn %d is turn %d", user, n, d.Turn.Turns)
				}
			}
		})
	}
	all.Wait()
	st := s.known.Stats(time.Now())
	require.Equal(t, 8, st.Sessions)
	require.Zero(t, st.Running)
}

// TestConversationsStayWhenEventsFail: the tree knows nothing of a rank with live events, and
// the sessions there go on until it does.
func TestConversationsStayWhenEventsFail(t *testing.T) {
	s := newSessions(t, 2)
	for _, rank := range s.ranks {
		rank.SetExact(true)
	}
	s.send(1, turn(1, 0), 50)
	s.send(1, turn(2, 0), 50)
	for _, rank := range s.ranks {
		rank.SetExact(false)
	}
	cached := func(p *routing.Prompt) (tokens [2]int) {
		t.Helper()
		d, err := s.router.Pick(&s.scratch, p, nil)
		require.NoError(t, err)
		require.Equal(t, routing.Answers, d.Source)
		return [2]int{s.spy.candidates[0].Cached, s.spy.candidates[1].Cached}
	}
	whole := (1000 - 8) / unit * unit // without the answer's beginning
	require.Equal(t, [2]int{0, whole}, cached(turn(1, 1)))
	require.Equal(t, [2]int{0, 0}, cached(turn(3, 0)), "a prompt that nobody knows")

	s.send(1, turn(1, 1), 50) // from here on the tree is to know, and this request failed
	require.Equal(t, [2]int{0, 0}, cached(turn(1, 2)))
	require.Equal(t, [2]int{0, whole}, cached(turn(2, 1)))
	s.known.ClearRank(s.ranks[1])
	require.Equal(t, [2]int{0, 0}, cached(turn(2, 1)), "another process")
}
