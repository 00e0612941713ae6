package peers

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/cluster/codec"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/routing"
)

// size draws a number of any magnitude.
func size(rng *rand.Rand) int64 { return rng.Int64N(codec.Largest) >> rng.IntN(50) }

func someLoad(rng *rand.Rand) *loadMessage {
	s := &loadMessage{id: []byte("router"), started: size(rng), number: size(rng), whole: rng.IntN(2) == 0, last: rng.IntN(2) == 0}
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

func someRequest(rng *rand.Rand) routing.PeerRequest {
	stored := rng.IntN(2) == 0
	held := func() routing.PeerOverlap {
		cached := int(size(rng))
		h := routing.PeerOverlap{Cached: cached, Host: rng.IntN(cached + 1), Predicted: int(size(rng))}
		if stored {
			h.Tier, h.Remote, h.TierTime, h.RemoteTime = rng.Int32(), rng.Int32N(9), float32(rng.Uint32N(5)), 0.25
		}
		return h
	}
	a := routing.PeerRequest{
		Stored: stored,
		Model:  "model", LoRA: "adapter", Tokens: int(size(rng)), Output: int(size(rng)), DP: rng.IntN(9) - 1, Exact: rng.IntN(2) == 0,
		Unpaired: rng.IntN(2) == 0, SessionRank: rng.Uint64(), Common: held(),
	}
	for range rng.IntN(9) {
		a.Fingerprints = append(a.Fingerprints, rng.Uint32())
	}
	for range rng.IntN(5) {
		a.Overlaps = append(a.Overlaps, routing.RankOverlap{Rank: rng.Uint64(), PeerOverlap: held()})
	}
	return a
}

// FuzzMessages: a message that decodes without an error encodes and decodes to the same, and
// takes no more memory than its bytes allow; all others are codec.ErrMessage.
func FuzzMessages(f *testing.F) {
	rng := rand.New(rand.NewPCG(2, 2))
	for range 20 {
		ask := someRequest(rng)
		f.Add(someLoad(rng).append(nil))
		f.Add(appendRequest(nil, "router", 1, &ask))
		news := promptMessage{id: "router", number: 1, rank: 2, tokens: 300, fingerprints: ask.Fingerprints}
		f.Add(news.encode())
		f.Add(appendReply(nil, &routing.PeerReply{Number: 1, Rank: 2, Decode: 3, Cost: 4}))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		kept := bytes.Clone(b)
		var s, s2 loadMessage
		if err := s.decode(b); err == nil {
			require.NoError(t, s2.decode(s.append(nil)))
			require.Equal(t, s, s2)
			require.LessOrEqual(t, len(s.ranks)*rankShareSize+len(s.sent)+len(s.done), len(b))
			for i := range s.ranks {
				require.GreaterOrEqual(t, min(s.ranks[i].InFlight, s.ranks[i].Pending, s.ranks[i].Sent), int64(0))
			}
		} else {
			require.ErrorIs(t, err, codec.ErrMessage)
		}
		var q, q2 request
		if err := q.decode(b); err == nil {
			require.NoError(t, q2.decode(appendRequest(nil, string(q.id), q.number, &q.PeerRequest)))
			require.Equal(t, q, q2)
			require.LessOrEqual(t, len(q.Overlaps)*overlapSize+4*len(q.Fingerprints), len(b))
		} else {
			require.ErrorIs(t, err, codec.ErrMessage)
		}
		var n, n2 promptMessage
		if err := n.decode(b); err == nil {
			require.NoError(t, n2.decode(n.encode()))
			require.Equal(t, n, n2)
			require.LessOrEqual(t, len(n.fingerprints), routing.MaxFingerprints)
		} else {
			require.ErrorIs(t, err, codec.ErrMessage)
		}
		if a, err := readReply(b); err == nil {
			again, err := readReply(appendReply(nil, &a))
			require.NoError(t, err)
			require.Equal(t, a, again)
		} else if !errors.Is(err, codec.ErrMessage) {
			t.Fatal(err)
		}
		require.Equal(t, kept, b, "a message is not written to")
	})
}
