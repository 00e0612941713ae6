package peers

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/cluster/codec"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/routing"
)

// size draws a number of any magnitude.
func size(rng *rand.Rand) int64 { return rng.Int64N(codec.Largest) >> rng.IntN(50) }

func someMessage(rng *rand.Rand) *message {
	s := &message{id: []byte("router"), started: size(rng), number: size(rng), whole: rng.IntN(2) == 0, last: rng.IntN(2) == 0}
	for range rng.IntN(5) {
		p := prompt{number: uint64(size(rng)), rank: rng.Uint64()}
		for range rng.IntN(9) {
			p.fingerprints = append(p.fingerprints, rng.Uint32())
		}
		s.sent = append(s.sent, p)
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

// FuzzMessages: a message that decodes without an error encodes and decodes to the same, and
// takes no more memory than its bytes allow; all others are codec.ErrMessage.
func FuzzMessages(f *testing.F) {
	rng := rand.New(rand.NewPCG(2, 2))
	for range 20 {
		f.Add(someMessage(rng).append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		kept := bytes.Clone(b)
		var s, s2 message
		if err := s.decode(b); err == nil {
			require.NoError(t, s2.decode(s.append(nil)))
			require.Equal(t, s.append(nil), s2.append(nil))
			require.LessOrEqual(t, len(s.ranks)*rankShareSize+len(s.sent)*promptSize+len(s.done), len(b))
			for i := range s.sent {
				require.LessOrEqual(t, len(s.sent[i].fingerprints), routing.MaxFingerprints)
			}
			for i := range s.ranks {
				require.GreaterOrEqual(t, min(s.ranks[i].InFlight, s.ranks[i].Pending, s.ranks[i].Sent), int64(0))
			}
		} else {
			require.ErrorIs(t, err, codec.ErrMessage)
		}
		require.Equal(t, kept, b, "a message is not written to")
	})
}
