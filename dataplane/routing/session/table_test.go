package session_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/warmpath/warmpath/dataplane/routing/session"
)

// One session that is running counts wholly, at its latest rank only, and without the tokens
// that other sessions had before.
func TestRunningSessionIsLive(t *testing.T) {
	x := session.New()
	const a, b = 0, 1
	x.Sent(0, 7, a, 1000, 400)
	assert.InDelta(t, 600, x.Live(a), 1e-9)
	x.Sent(1, 7, b, 1500, 400)
	assert.Zero(t, x.Live(a), "its pages there are left behind")
	assert.InDelta(t, 1100, x.Live(b), 1e-9)
	at, live := x.Home(7)
	assert.Equal(t, b, at)
	assert.InDelta(t, 1100, live, 1e-9)
	x.Clear(b)
	assert.Zero(t, x.Live(b))
	at, _ = x.Home(7)
	assert.Equal(t, -1, at)
	x.Ended(2, 7, 10)
	assert.Zero(t, x.Live(b), "an answer of a lost rank leaves nothing there")
}

// Requests without a session are none.
func TestKeyZeroIsNoSession(t *testing.T) {
	x := session.New()
	const a = 0
	x.Sent(0, 0, a, 1000, 0)
	x.Ended(1, 0, 10)
	assert.Zero(t, x.Live(a))
	at, _ := x.Home(0)
	assert.Equal(t, -1, at)
}

// play lets sessions of 1,000 tokens with a share of ending after each turn pause for 10 s on
// average.
func play(x *session.Table, r *rand.Rand, key *uint64, a int, ends, from float64, turns int) {
	for now := from; turns > 0; now += 50 {
		*key++
		at := now
		for {
			x.Sent(at, *key, a, 1000, 0)
			x.Ended(at+1, *key, 0)
			if turns--; r.Float64() < ends {
				break
			}
			at += 1 + r.ExpFloat64()*10
		}
	}
}

// Sessions that never come back are not live soon after; those that nearly always do are.
func TestChanceOfReturn(t *testing.T) {
	for _, c := range []struct{ ends, low, high float64 }{{1, 0, 50}, {0.02, 900, 1000}, {0.5, 350, 650}} {
		x := session.New()
		const a = 0
		key := uint64(0)
		play(x, rand.New(rand.NewPCG(1, 2)), &key, a, c.ends, 0, 3000)
		key++
		before := x.Live(a)
		x.Sent(1e7, key, a, 1000, 0)
		x.Ended(1e7, key, 0)
		got := x.Live(a) - before
		assert.True(t, got >= c.low && got <= c.high, "%v of sessions end after a turn: live tokens %v of 1,000", c.ends, got)
	}
}

// A pause far beyond the usual one means the end of a session.
func TestLongPauseEnds(t *testing.T) {
	x := session.New()
	const a, b = 0, 1
	key := uint64(0)
	play(x, rand.New(rand.NewPCG(3, 4)), &key, a, 0.1, 0, 3000)
	x.Sent(1e6, 1<<40, b, 1000, 0)
	x.Ended(1e6, 1<<40, 0)
	fresh := x.Live(b)
	assert.Greater(t, fresh, 700.0)
	play(x, rand.New(rand.NewPCG(5, 6)), &key, a, 0.1, 1e6+2000, 2000)
	assert.Less(t, x.Live(b), fresh/4)
}

// The same sessions with all times divided by four and all tokens times eight give eight times
// the live tokens, to the digit.
func TestScale(t *testing.T) {
	run := func(seconds, tokens float64) (live []float64) {
		x, r := session.New(), rand.New(rand.NewPCG(7, 8))
		const a, b = 0, 1
		now := 0.0
		for range 5000 {
			now += r.ExpFloat64() * seconds
			key, n := r.Uint64N(80)+1, (1+r.Float64()*1000)*tokens
			x.Sent(now, key, []int{a, b}[r.IntN(2)], n, 0)
			x.Ended(now+seconds, key, 10*tokens)
			live = append(live, x.Live(a)/tokens)
		}
		return live
	}
	assert.True(t, slices.Equal(run(1, 1), run(0.25, 8)))
}

// A table stays bounded, and a rank's live tokens never drift below zero or beyond its sessions.
func TestBounded(t *testing.T) {
	x := session.New()
	const a = 0
	for key := range uint64(200_000) {
		x.Sent(float64(key), key+1, a, 100, 0)
		x.Ended(float64(key)+0.5, key+1, 1)
	}
	assert.False(t, x.Live(a) < 0 || math.IsNaN(x.Live(a)))
	assert.LessOrEqual(t, x.Live(a), 101.0*(1<<15))
}

// A session that takes another one's place takes its tokens from the rank, and the end of the other
// one's request changes nothing.
func TestPlaceOfAnother(t *testing.T) {
	x := session.New()
	const a, b = 0, 1
	one, two := uint64(7), uint64(7|3<<15)
	x.Sent(0, one, a, 1000, 0)
	x.Sent(1, two, b, 500, 0)
	assert.Zero(t, x.Live(a))
	assert.InDelta(t, 500, x.Live(b), 1e-9)
	x.Ended(2, one, 10)
	assert.InDelta(t, 500, x.Live(b), 1e-9)
	at, _ := x.Home(one)
	assert.Equal(t, -1, at)
	at, _ = x.Home(two)
	assert.Equal(t, b, at)
}
