package queue_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/routing/queue"
)

// prompt makes ids of a path in the tree of prompts: each step is a piece of so many tokens
// that only the path so far decides.
func prompt(piece int, path ...byte) []uint32 {
	var ids []uint32
	for i := range path {
		rng := rand.New(rand.NewPCG(uint64(path[i]), uint64(i)))
		for range piece {
			ids = append(ids, rng.Uint32N(1000))
		}
	}
	return ids
}

func branch(piece int, path ...byte) queue.Branch {
	return queue.AppendTokens(nil, 1, prompt(piece, path...))
}

func TestBranchesShareWhatPromptsShare(t *testing.T) {
	a, b := prompt(400, 1, 2, 3), prompt(400, 1, 2, 4)
	x, y := queue.AppendTokens(nil, 7, a), queue.AppendTokens(nil, 7, b)
	n := 0
	for n < len(x) && n < len(y) && x[n] == y[n] {
		n++
	}
	shared := tokensOf(n)
	require.LessOrEqual(t, shared, 800)
	require.Greater(t, shared, 800*14/16, "shared tokens known to a sixteenth")
	require.NotEqual(t, x[0], queue.AppendTokens(nil, 8, a)[0], "another salt is another branch")
	require.Empty(t, queue.AppendTokens(nil, 7, a[:15]), "less than a page")
	require.Len(t, queue.AppendTokens(nil, 7, make([]uint32, 128_000)), 143, "hashes of 128,000 tokens")
	require.Len(t, queue.AppendText(nil, 7, make([]byte, 64*16+64*2)), 17, "text goes in the same steps")
}

func TestDepthFirst(t *testing.T) {
	o := queue.NewOrder(queue.Rules{Max: 100, MaxAge: time.Hour})
	var names []string
	by := map[*queue.Waiter]string{}
	push := func(name string, w *queue.Waiter) {
		w.DP = queue.AnyDP
		by[w] = name
		_, ok := o.Push(w, 0)
		require.True(t, ok)
	}
	push("a1", &queue.Waiter{Branch: branch(64, 1, 1)})
	push("b1", &queue.Waiter{Branch: branch(64, 2, 1)})
	push("c1", &queue.Waiter{Branch: branch(64, 3, 1)})
	push("a2", &queue.Waiter{Branch: branch(64, 1, 2)})
	push("b2", &queue.Waiter{Branch: branch(64, 2, 2)})
	push("a3", &queue.Waiter{Branch: branch(64, 1, 3)})
	push("first", &queue.Waiter{Priority: 5, Branch: branch(64, 9, 9)})
	for _, lane := range []string{"x", "x", "x", "y", "x", "y", "y"} {
		names = append(names, by[o.Pop(lane, 0, 0)])
	}
	// The priority, then the oldest; x stays in a. y begins with b, which no other rank is in;
	// x finishes a although b2 is older.
	require.Equal(t, []string{"first", "a1", "a2", "b1", "a3", "b2", "c1"}, names)
	require.Zero(t, o.Len())
}

func TestTurnsOfClients(t *testing.T) {
	o := queue.NewOrder(queue.Rules{Max: 1000, MaxAge: time.Hour})
	const flood, quiet = 1, 2
	for range 100 {
		o.Push(&queue.Waiter{Client: flood, Tokens: 4000, DP: queue.AnyDP, Branch: branch(64, 1)}, 0)
	}
	o.Push(&queue.Waiter{Client: quiet, Tokens: 4000, DP: queue.AnyDP, Branch: branch(64, 2)}, 0)
	before := 0
	for o.Pop("x", 0, 0).Client != quiet {
		before++
	}
	// A quantum of 16,384 pays for 5 requests of 4,256 tokens, the last one in part.
	require.LessOrEqual(t, before, 5, "requests of the flood before the quiet client's")
}

func TestBoundMakesRoomForTheQuiet(t *testing.T) {
	o := queue.NewOrder(queue.Rules{Max: 3, MaxAge: time.Hour})
	w := func(client uint64, priority int) *queue.Waiter {
		return &queue.Waiter{Client: client, Priority: priority, DP: queue.AnyDP}
	}
	a, b, c := w(1, 0), w(1, 0), w(1, 0)
	for _, x := range []*queue.Waiter{a, b, c} {
		_, ok := o.Push(x, 0)
		require.True(t, ok)
	}
	_, ok := o.Push(w(1, 0), 0)
	require.False(t, ok, "the flood's own next one")
	out, ok := o.Push(w(2, 0), 0)
	require.True(t, ok)
	require.Same(t, c, out, "the flood's newest leaves")
	_, ok = o.Push(w(2, 0), 0)
	require.False(t, ok, "one more would be as many as the flood has left")
	out, ok = o.Push(w(1, 9), 0)
	require.True(t, ok)
	require.Same(t, b, out, "a higher priority takes a permit")
	_, ok = o.Push(w(3, queue.NoPriority), 0)
	require.False(t, ok, "none at all is below 0")
}

func TestOverdueGetOneInFour(t *testing.T) {
	o := queue.NewOrder(queue.Rules{Max: 1000, MaxAge: time.Minute})
	old := &queue.Waiter{Priority: queue.NoPriority, DP: queue.AnyDP}
	o.Push(old, 0)
	for range 20 {
		o.Push(&queue.Waiter{Priority: 1, DP: queue.AnyDP}, 0)
	}
	require.NotSame(t, old, o.Pop("x", 0, time.Minute-1))
	var at []int
	for i := range 8 {
		if w := o.Pop("x", 0, time.Minute); w == old || w.Priority == queue.NoPriority {
			at = append(at, i)
		}
	}
	require.Equal(t, []int{0}, at, "it is the first as soon as it is overdue")
}

func FuzzOrderAgainstNaive(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 200, 201, 202, 203})
	f.Add([]byte("push and pop in some order, again and again and again"))
	for seed := range uint64(4) {
		rng := rand.New(rand.NewPCG(seed, 3))
		script := make([]byte, 600)
		for i := range script {
			script[i] = byte(rng.Uint32())
		}
		f.Add(script)
	}
	f.Fuzz(func(t *testing.T, script []byte) {
		if len(script) > 4000 {
			return
		}
		next := func() byte {
			if len(script) == 0 {
				return 0
			}
			b := script[0]
			script = script[1:]
			return b
		}
		rules := queue.Rules{Max: 1 + int(next()%96), MaxAge: 20 * time.Second, Patient: 30 * time.Second, FIFO: next()%16 == 0}
		o, n := queue.NewOrder(rules), newNaive(rules)
		var now time.Duration
		for len(script) > 0 {
			op := next()
			now += time.Duration(op%7) * time.Second
			switch {
			case op < 150:
				path := next()
				w := &queue.Waiter{
					Client: uint64(next() % 4), Priority: int(next()%4) / 2, Tokens: int(next()) * 64, DP: int(next()%8)%3 - 1,
					Branch: branch(40, path>>6, path>>4&3, path>>2&3, path&3), Patience: time.Duration(next()/64) * 400 * time.Second,
				}
				out, ok := o.Push(w, now)
				wantOut, wantOK := n.push(w, now)
				require.True(t, ok == wantOK && out == wantOut, "Push refuses or displaces another one")
			case op < 165:
				if i := int(next()); i < len(n.waiters) {
					w := n.waiters[i].Waiter
					require.Equal(t, n.remove(w), o.Remove(w))
					require.False(t, o.Remove(w), "removed twice")
				}
			case op < 168:
				n.newest = !n.newest && !rules.FIFO
				o.NewestFirst(n.newest)
			case op < 170:
				w := n.stale()
				require.Same(t, w, o.Stale())
				if w != nil {
					require.Equal(t, n.remove(w), o.Remove(w))
				}
			case op < 175:
				b := branch(40, next()&3, next()&3)
				o.Sent(int(op)%3, b)
				n.give(int(op)%3, b)
			default:
				lane, dp := int(next()%3), int(next()%2)
				got, want := o.Pop(lane, dp, now), n.pop(lane, dp, now)
				require.True(t, got == want, "Pop(%d, %d) = %+v, want %+v", lane, dp, got, want)
			}
			require.Equal(t, len(n.waiters), o.Len())
		}
	})
}
