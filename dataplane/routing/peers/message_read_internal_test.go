//go:build !race || soak

package peers

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/cluster/codec"
	"github.com/warmpath/warmpath/dataplane/routing"
)

func TestMessagesReadAsWritten(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var s loadMessage // used again, as a Group does
	later := loadMessage{started: time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro(), number: 1}
	require.NoError(t, s.decode(later.append(nil)))
	require.Equal(t, later.started, s.started)
	var q request
	for range 2000 {
		want := someLoad(rng)
		b := want.append(nil)
		require.NoError(t, s.decode(b))
		require.Equal(t, b, s.append(nil))
		require.Equal(t, want.started, s.started)
		require.Equal(t, append([]rankShare{}, want.ranks...), append([]rankShare{}, s.ranks...))
		require.Equal(t, append([]int64{}, want.sent...), append([]int64{}, s.sent...))
		require.Equal(t, append([]int64{}, want.done...), append([]int64{}, s.done...))

		news, heard := promptMessage{id: "router", number: uint64(size(rng)), rank: rng.Uint64(), tokens: int(size(rng)), fingerprints: []uint32{rng.Uint32(), 7}}, promptMessage{}
		require.NoError(t, heard.decode(news.encode()))
		require.Equal(t, news, heard)

		ask := someRequest(rng)
		b = appendRequest(nil, "router", 77, &ask)
		require.NoError(t, q.decode(b))
		require.Equal(t, "router", string(q.id))
		require.EqualValues(t, 77, q.number)
		ask.Overlaps, q.Overlaps = append([]routing.RankOverlap{}, ask.Overlaps...), append([]routing.RankOverlap{}, q.Overlaps...)
		ask.Fingerprints, q.Fingerprints = append([]uint32{}, ask.Fingerprints...), append([]uint32{}, q.Fingerprints...)
		require.Equal(t, ask, q.PeerRequest)

		answer := routing.PeerReply{Number: uint64(size(rng)), Rank: rng.Uint64(), Decode: rng.Uint64(), Cost: rng.NormFloat64()}
		got, err := readReply(appendReply(nil, &answer))
		require.NoError(t, err)
		require.Equal(t, answer, got)
		for cut := range b {
			require.ErrorIs(t, q.decode(b[:cut]), codec.ErrMessage)
		}
	}
}
