package peers

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/routing"
)

// size draws a number of any magnitude.
func size(rng *rand.Rand) int64 { return rng.Int64N(largest) >> rng.IntN(50) }

func someState(rng *rand.Rand) *state {
	s := &state{id: []byte("router"), started: size(rng), number: size(rng), whole: rng.IntN(2) == 0, last: rng.IntN(2) == 0}
	for range rng.IntN(5) {
		s.sent = append(s.sent, size(rng))
	}
	for range rng.IntN(5) {
		s.done = append(s.done, size(rng))
	}
	for range rng.IntN(5) {
		s.ranks = append(s.ranks, rankShare{rng.Uint64(), worker.RouterLoad{
			InFlight: size(rng), Waiting: size(rng), Pending: size(rng), Used: size(rng), Held: size(rng), Sent: size(rng),
		}})
	}
	return s
}

func someAsk(rng *rand.Rand) routing.Ask {
	stored := rng.IntN(2) == 0
	held := func() routing.Held {
		cached := int(size(rng))
		h := routing.Held{Cached: cached, Host: rng.IntN(cached + 1), Predicted: int(size(rng))}
		if stored {
			h.Tier, h.Remote, h.TierTime, h.RemoteTime = rng.Int32(), rng.Int32N(9), float32(rng.Uint32N(5)), 0.25
		}
		return h
	}
	a := routing.Ask{
		Stored: stored,
		Model:  "model", LoRA: "adapter", Tokens: int(size(rng)), Output: int(size(rng)), DP: rng.IntN(9) - 1, Exact: rng.IntN(2) == 0,
		Unpaired: rng.IntN(2) == 0, Prefix: rng.Uint64(), Home: rng.Uint64(), Base: held(),
	}
	for range rng.IntN(9) {
		a.Marks = append(a.Marks, rng.Uint32())
	}
	for range rng.IntN(5) {
		a.Held = append(a.Held, routing.RankHeld{Rank: rng.Uint64(), Held: held()})
	}
	return a
}

func TestMessagesReadAsWritten(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var s state // used again, as a Group does
	later := state{started: time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro(), number: 1}
	require.NoError(t, s.read(later.append(nil)))
	require.Equal(t, later.started, s.started)
	var q question
	for range 2000 {
		want := someState(rng)
		b := want.append(nil)
		require.NoError(t, s.read(b))
		require.Equal(t, b, s.append(nil))
		require.Equal(t, want.started, s.started)
		require.Equal(t, append([]rankShare{}, want.ranks...), append([]rankShare{}, s.ranks...))
		require.Equal(t, append([]int64{}, want.sent...), append([]int64{}, s.sent...))
		require.Equal(t, append([]int64{}, want.done...), append([]int64{}, s.done...))

		news, heard := told{id: "router", number: uint64(size(rng)), rank: rng.Uint64(), tokens: int(size(rng)), marks: []uint32{rng.Uint32(), 7}}, told{}
		require.NoError(t, heard.read(news.encode()))
		require.Equal(t, news, heard)

		ask := someAsk(rng)
		b = appendAsk(nil, "router", 77, &ask)
		require.NoError(t, q.read(b))
		require.Equal(t, "router", string(q.id))
		require.EqualValues(t, 77, q.number)
		ask.Held, q.Held = append([]routing.RankHeld{}, ask.Held...), append([]routing.RankHeld{}, q.Held...)
		ask.Marks, q.Marks = append([]uint32{}, ask.Marks...), append([]uint32{}, q.Marks...)
		require.Equal(t, ask, q.Ask)

		answer := routing.Answer{Number: uint64(size(rng)), Rank: rng.Uint64(), Decode: rng.Uint64(), Cost: rng.NormFloat64()}
		got, err := readAnswer(appendAnswer(nil, &answer))
		require.NoError(t, err)
		require.Equal(t, answer, got)
		for cut := range b {
			require.ErrorIs(t, q.read(b[:cut]), ErrMessage)
		}
	}
}

// FuzzMessages: what is read without an error is written and read again the same, and nothing more is kept of a message than it has
// bytes for; all else is ErrMessage.
func FuzzMessages(f *testing.F) {
	rng := rand.New(rand.NewPCG(2, 2))
	for range 20 {
		ask := someAsk(rng)
		f.Add(someState(rng).append(nil))
		f.Add(appendAsk(nil, "router", 1, &ask))
		news := told{id: "router", number: 1, rank: 2, tokens: 300, marks: ask.Marks}
		f.Add(news.encode())
		f.Add(appendAnswer(nil, &routing.Answer{Number: 1, Rank: 2, Decode: 3, Cost: 4}))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		kept := bytes.Clone(b)
		var s, s2 state
		if err := s.read(b); err == nil {
			require.NoError(t, s2.read(s.append(nil)))
			require.Equal(t, s, s2)
			require.LessOrEqual(t, len(s.ranks)*rankShareSize+len(s.sent)+len(s.done), len(b))
			for i := range s.ranks {
				require.GreaterOrEqual(t, min(s.ranks[i].InFlight, s.ranks[i].Pending, s.ranks[i].Sent), int64(0))
			}
		} else {
			require.ErrorIs(t, err, ErrMessage)
		}
		var q, q2 question
		if err := q.read(b); err == nil {
			require.NoError(t, q2.read(appendAsk(nil, string(q.id), q.number, &q.Ask)))
			require.Equal(t, q, q2)
			require.LessOrEqual(t, len(q.Held)*heldSize+4*len(q.Marks), len(b))
		} else {
			require.ErrorIs(t, err, ErrMessage)
		}
		var n, n2 told
		if err := n.read(b); err == nil {
			require.NoError(t, n2.read(n.encode()))
			require.Equal(t, n, n2)
			require.LessOrEqual(t, len(n.marks), routing.MostMarks)
		} else {
			require.ErrorIs(t, err, ErrMessage)
		}
		if a, err := readAnswer(b); err == nil {
			again, err := readAnswer(appendAnswer(nil, &a))
			require.NoError(t, err)
			require.Equal(t, a, again)
		} else if !errors.Is(err, ErrMessage) {
			t.Fatal(err)
		}
		require.Equal(t, kept, b, "a message is not written to")
	})
}
