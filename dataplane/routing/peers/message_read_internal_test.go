//go:build !race || soak

package peers

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/cluster/codec"
)

func TestMessagesReadAsWritten(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var s message // used again, as a Group does
	later := message{started: time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro(), number: 1}
	require.NoError(t, s.decode(later.append(nil)))
	require.Equal(t, later.started, s.started)
	for range 2000 {
		want := someMessage(rng)
		b := want.append(nil)
		require.NoError(t, s.decode(b))
		require.Equal(t, b, s.append(nil))
		require.Equal(t, want.started, s.started)
		require.Equal(t, append([]rankShare{}, want.ranks...), append([]rankShare{}, s.ranks...))
		require.Len(t, s.sent, len(want.sent))
		for i, p := range want.sent {
			require.Equal(t, append([]uint32{}, p.fingerprints...), append([]uint32{}, s.sent[i].fingerprints...))
			p.fingerprints, s.sent[i].fingerprints = nil, nil
			require.Equal(t, p, s.sent[i])
		}
		require.Equal(t, append([]int64{}, want.done...), append([]int64{}, s.done...))

		for cut := range b {
			require.ErrorIs(t, s.decode(b[:cut]), codec.ErrMessage)
		}
	}
}
