package turns_test

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/routing/turns"
)

// client sends prompts of units that are numbers.
type client struct {
	t     testing.TB
	table *turns.Table
	now   int64
}

func newClient(t testing.TB) *client {
	t.Helper()
	return &client{t: t, table: turns.New(1)}
}

// begin sends a prompt.
func (c *client) begin(name uint64, prompt []uint64) turns.Turn {
	c.t.Helper()
	c.now++
	prefixes := turns.AppendPrefixes(nil, c.table, prompt)
	f := c.table.Find(prefixes, name, false)
	again := c.table.Find(prefixes, name, false)
	require.Equal(c.t, f, again, "Find changes nothing")
	c.table.Begin(&f, prefixes, c.now)
	return f
}

// send sends a prompt and has its answer.
func (c *client) send(name uint64, prompt []uint64) turns.Turn {
	c.t.Helper()
	f := c.begin(name, prompt)
	c.now++
	c.table.End(&f, c.now)
	return f
}

// units returns n units that no other seed has.
func units(seed uint64, n int) []uint64 {
	r := rand.New(rand.NewPCG(seed, 1))
	out := make([]uint64, n)
	for i := range out {
		out[i] = r.Uint64()
	}
	return out
}

func TestTurnsOfASession(t *testing.T) {
	c := newClient(t)
	prompt := units(1, 100)
	first := c.send(0, prompt)
	require.Equal(t, turns.First, first.Kind)
	for turn := range 20 {
		prompt = append(prompt, units(uint64(turn+2), 1+turn*7)...)
		f := c.send(0, prompt)
		require.Equal(t, turns.Next, f.Kind)
		require.Equal(t, first.Session, f.Session)
		require.Equal(t, first.ID, f.ID)
		require.Equal(t, turn+1, f.Turns)
		again := c.send(0, prompt)
		require.Equal(t, turns.Again, again.Kind, "a request that is sent again is no turn")
		require.Equal(t, f.ID, again.ID)
	}
}

// TestRewrittenTurn: a client that changes the end of its last prompt goes on in its session, and one
// that goes on from both has two branches.
func TestRewrittenTurn(t *testing.T) {
	c := newClient(t)
	one := units(1, 50)
	first := c.send(0, one)
	two := slices.Concat(one, units(2, 20))
	c.send(0, two)
	other := slices.Concat(one, units(3, 20))
	f := c.send(0, other)
	require.Equal(t, turns.Rewritten, f.Kind)
	require.Equal(t, first.ID, f.ID)
	require.Equal(t, turns.Next, c.send(0, slices.Concat(other, units(4, 5))).Kind)
	back := c.send(0, slices.Concat(two, units(5, 5)))
	require.Equal(t, turns.Branch, back.Kind)
	require.Equal(t, first.Session, back.Session)
	require.NotEqual(t, first.ID, back.ID)
}

// TestSubAgents: prompts that leave a session's chain are branches of it with tokens of their own,
// also while the session's own request runs.
func TestSubAgents(t *testing.T) {
	c := newClient(t)
	main := units(1, 100)
	first := c.send(0, main)
	ends := []int{100}
	for i := range 6 {
		main = append(main, units(uint64(10+i), 30)...)
		ends = append(ends, len(main))
		c.send(0, main)
	}
	running := c.begin(0, append(slices.Clone(main), units(20, 10)...))
	seen := map[turns.ID]bool{first.ID: true}
	for i, end := range ends[:len(ends)-1] {
		prompt := slices.Concat(main[:end], units(uint64(30+i), 40))
		f := c.send(0, prompt)
		require.Equal(t, turns.Branch, f.Kind)
		require.Equal(t, first.Session, f.Session)
		require.Equal(t, end, f.Shared)
		require.False(t, seen[f.ID])
		seen[f.ID] = true
		next := c.send(0, append(prompt, units(uint64(50+i), 40)...))
		require.Equal(t, turns.Next, next.Kind)
		require.Equal(t, f.ID, next.ID)
	}
	c.table.End(&running, c.now)
	require.Equal(t, turns.Next, c.send(0, append(slices.Clone(main), units(20, 20)...)).Kind, "the main branch is where it was")
}

// TestSubAgentsWithAName share nothing but the session's name.
func TestSubAgentsWithAName(t *testing.T) {
	c := newClient(t)
	first := c.send(7, units(1, 100))
	f := c.send(7, units(2, 100))
	require.Equal(t, turns.Branch, f.Kind)
	require.True(t, f.Named)
	require.Equal(t, uint64(7), first.Session)
	require.Equal(t, uint64(7), f.Session)
	require.NotEqual(t, first.ID, f.ID)
	next := c.send(7, append(units(1, 100), units(3, 9)...))
	require.Equal(t, first.ID, next.ID)
	require.Equal(t, turns.Next, next.Kind)
}

// TestNamesOfAnswers: a turn that refers to an answer is the next one of its session, whether its
// prompt has the turns before it or the new part only.
func TestNamesOfAnswers(t *testing.T) {
	c := newClient(t)
	prompt := units(1, 50)
	last := c.send(0, prompt)
	first := last
	for turn := range uint64(10) {
		c.table.Name(&last, 1000+turn)
		part := units(100+turn, 20)
		if turn%2 == 0 {
			prompt = append(prompt, part...)
			part = prompt
		}
		prefixes := turns.AppendPrefixes(nil, c.table, part)
		last = c.table.Find(prefixes, 1000+turn, true)
		require.Equal(t, turns.Next, last.Kind)
		require.Equal(t, first.ID, last.ID)
		require.Equal(t, int(turn)+1, last.Turns)
		c.table.Begin(&last, prefixes, c.now)
		c.table.End(&last, c.now)
	}
	unknown := c.table.Find(nil, 5000, true)
	require.Equal(t, turns.First, unknown.Kind, "an answer of another router")
}

// TestUnitlessPrompts of which nothing but the name is known are turns of the named session.
func TestUnitlessPrompts(t *testing.T) {
	c := newClient(t)
	require.Equal(t, turns.None, c.send(0, nil).Kind)
	first := c.send(7, nil)
	require.Equal(t, turns.First, first.Kind)
	next := c.send(7, nil)
	require.Equal(t, turns.Next, next.Kind)
	require.Equal(t, first.ID, next.ID)
}

// TestSharedSystemPrompts: users of one system prompt at once have sessions of their own, and the
// system prompt is known to be shared.
func TestSharedSystemPrompts(t *testing.T) {
	c := newClient(t)
	system := units(1, 300)
	const users = 20
	prompts, sessions := make([][]uint64, users), make([]uint64, users)
	r := rand.New(rand.NewPCG(1, 2))
	var running []turns.Turn
	var busy []int // users of running, who wait for their answers
	for step := range 2000 {
		u := r.IntN(users)
		for slices.Contains(busy, u) {
			u = r.IntN(users)
		}
		prompts[u] = append(slices.Clip(prompts[u]), units(uint64(1000+step), 1+r.IntN(20))...)
		f := c.begin(0, slices.Concat(system, prompts[u]))
		if step > 1000 {
			require.NotZero(t, sessions[u])
			require.Equal(t, sessions[u], f.Session, "step %d", step)
			require.Equal(t, turns.Next, f.Kind)
			require.Positive(t, f.Shared)
			require.LessOrEqual(t, f.Shared, 300+1)
		}
		sessions[u] = f.Session
		busy = append(busy, u)
		if running = append(running, f); len(running) > 3 {
			c.table.End(&running[0], c.now)
			running, busy = running[1:], busy[1:]
		}
	}
	slices.Sort(sessions)
	require.Len(t, slices.Compact(sessions), users)
}

// TestEqualPromptsAtOnce are no session, and the turns after them are.
func TestEqualPromptsAtOnce(t *testing.T) {
	c := newClient(t)
	hello := units(1, 30)
	var floods []turns.Turn
	for range 50 {
		floods = append(floods, c.begin(0, hello))
	}
	sessions := map[uint64]bool{}
	for i := range floods {
		c.table.End(&floods[i], c.now)
		sessions[floods[i].Session] = true
	}
	require.LessOrEqual(t, len(sessions), 2, "the first one may be a session")
	a, b := slices.Concat(hello, units(2, 9)), slices.Concat(hello, units(3, 9))
	first, second := c.send(0, a), c.send(0, b)
	require.NotEqual(t, first.Session, second.Session)
	require.Equal(t, first.Session, c.send(0, append(a, 1)).Session)
	require.Equal(t, second.Session, c.send(0, append(b, 1)).Session)
}

// TestEqualPromptsWithNames are sessions by their names.
func TestEqualPromptsWithNames(t *testing.T) {
	c := newClient(t)
	hello := units(1, 30)
	for name := uint64(1); name <= 20; name++ {
		require.Equal(t, name, c.send(name, hello).Session)
	}
	for name := uint64(1); name <= 20; name++ {
		f := c.send(name, slices.Concat(hello, units(name, 5)))
		require.Equal(t, name, f.Session)
	}
}

// TestNameOfAnother: a client that sends another one's name gets branches of that session, and
// changes nothing for the other's prompts.
func TestNameOfAnother(t *testing.T) {
	c := newClient(t)
	prompt := units(1, 100)
	first := c.send(7, prompt)
	for turn := range uint64(20) {
		c.send(7, units(1000+turn, 100))
		prompt = append(prompt, units(100+turn, 10)...)
		f := c.send(7, prompt)
		require.Equal(t, turns.Next, f.Kind)
		require.Equal(t, first.ID, f.ID)
	}
}

// TestNewNameWithEachRequest: the prefix tells the session of a client that changes its name.
func TestNewNameWithEachRequest(t *testing.T) {
	c := newClient(t)
	prompt := units(1, 100)
	first := c.send(1, prompt)
	for turn := range uint64(20) {
		prompt = append(prompt, units(100+turn, 10)...)
		require.Equal(t, first.ID, c.send(1000+turn, prompt).ID)
	}
}

func TestAtOnce(t *testing.T) {
	table := turns.New(1)
	var all sync.WaitGroup
	system := units(1, 50)
	for g := range uint64(8) {
		all.Go(func() {
			prompt := slices.Concat(system, units(g, 10))
			for turn := range uint64(100) {
				prompt = append(prompt, units(g*1000+turn, 3)...)
				prefixes := turns.AppendPrefixes(nil, table, prompt)
				f := table.Find(prefixes, g%3, false)
				table.Begin(&f, prefixes, int64(turn))
				table.End(&f, int64(turn))
				if turn > 1 && f.Kind == turns.None {
					t.Errorf("turn %d of %d is of no session", turn, g)
				}
			}
		})
	}
	all.Wait()
	require.Positive(t, table.Stats(0).Branches)
}
