package announce

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/cluster/codec"
	"github.com/warmpath/warmpath/dataplane/kvtier/proto"
)

func randomReport(rng *rand.Rand) *Report {
	size := func() uint64 { return rng.Uint64N(codec.Largest) >> rng.IntN(50) }
	m := &Report{
		Type: TypeChanges + Type(rng.IntN(4)), Node: "node", Announcer: rng.Uint64(), Epoch: rng.Uint64(), From: size(), Next: size(),
		Kinds: []proto.Kind{}, Changes: []proto.Change{},
	}
	for range rng.IntN(4) {
		m.Kinds = append(m.Kinds, proto.Kind{ID: rng.Uint64(), Model: "model", PageSize: 1 + rng.IntN(128), Open: rng.IntN(2) == 0})
	}
	if len(m.Kinds) > 0 {
		for range rng.IntN(300) {
			c := proto.Change{Page: rng.Uint64(), Kind: uint32(rng.IntN(len(m.Kinds))), Removed: rng.IntN(9) == 0}
			if n := len(m.Changes); n > 0 && rng.IntN(8) > 0 {
				c.Kind, c.Removed = m.Changes[n-1].Kind, m.Changes[n-1].Removed
			}
			m.Changes = append(m.Changes, c)
		}
	}
	return m
}

func TestMessagesReadAsWritten(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var got Report // reused, as routers do
	for range 2000 {
		want := randomReport(rng)
		b := want.Append(nil)
		require.NoError(t, got.Read(b))
		require.Equal(t, want.Kinds, append([]proto.Kind{}, got.Kinds...))
		require.Equal(t, want.Changes, append([]proto.Change{}, got.Changes...))
		got.Kinds, got.Changes, want.Kinds, want.Changes = nil, nil, nil, nil
		require.Equal(t, *want, got)
		q := Question{Type: TypeAskContents + Type(rng.IntN(2)), Epoch: rng.Uint64(), Number: rng.Uint64N(codec.Largest)}
		b = q.Append(nil)
		read, err := ReadQuestion(b)
		require.NoError(t, err)
		require.Equal(t, q, read)
		for cut := range b {
			_, err := ReadQuestion(b[:cut])
			require.ErrorIs(t, err, ErrMessage)
		}
	}
}

// The bytes of both messages, as sidecars of this version exchange them.
func TestFormat(t *testing.T) {
	m := Report{
		Type: TypeChanges, Node: "n", Announcer: 1, Epoch: 2, From: 300, Next: 303,
		Kinds:   []proto.Kind{{ID: 3, Model: "m", PageSize: 16, Open: true}},
		Changes: []proto.Change{{Page: 4}, {Page: 5}, {Page: 6, Removed: true}},
	}
	require.Equal(t, []byte("\x01\x01\x01n\x01\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\xac\x02\xaf\x02"+
		"\x01\x03\x00\x00\x00\x00\x00\x00\x00\x01m\x10\x01"+
		"\x00\x02\x04\x00\x00\x00\x00\x00\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00\x01\x01\x06\x00\x00\x00\x00\x00\x00\x00"), m.Append(nil))
	q := Question{Type: TypeAskMissing, Epoch: 2, Number: 300}
	require.Equal(t, []byte("\x01\x06\x02\x00\x00\x00\x00\x00\x00\x00\xac\x02"), q.Append(nil))
}

// The longest report, whose runs have one change each, stays well below the 1 MiB of NATS.
func TestReportsAreBounded(t *testing.T) {
	m := Report{Type: TypeChanges, Node: "node"}
	name := string(bytes.Repeat([]byte("x"), 2*maxText))
	for i := range MaxKinds {
		m.Kinds = append(m.Kinds, proto.Kind{ID: uint64(i), Model: name, PageSize: 1})
	}
	for i := range MaxChanges {
		m.Changes = append(m.Changes, proto.Change{Page: 1, Kind: uint32(i % MaxKinds), Removed: i%2 == 0})
	}
	b := m.Append(nil)
	require.Less(t, len(b), 1<<20)
	var got Report
	require.NoError(t, got.Read(b))
	m.Changes = append(m.Changes, proto.Change{})
	require.ErrorIs(t, got.Read(m.Append(nil)), ErrMessage, "one change more than the bound")
}

// FuzzReport: a message that is read without an error is written and read again the same, has no
// more pages and kinds than bytes for them, and only changes of its own kinds; all others are
// ErrMessage.
func FuzzReport(f *testing.F) {
	rng := rand.New(rand.NewPCG(2, 2))
	for range 20 {
		f.Add(randomReport(rng).Append(nil))
	}
	f.Add((&Question{Type: TypeAskMissing, Epoch: 1, Number: 2}).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		before := bytes.Clone(b)
		var m, again Report
		if err := m.Read(b); err != nil {
			require.ErrorIs(t, err, ErrMessage)
		} else {
			require.LessOrEqual(t, len(m.Changes)*8+len(m.Kinds)*kindBytes, len(b))
			require.LessOrEqual(t, len(m.Changes), MaxChanges)
			for i := range m.Changes {
				require.Less(t, int(m.Changes[i].Kind), len(m.Kinds))
			}
			require.NoError(t, again.Read(m.Append(nil)))
			require.Equal(t, m, again)
		}
		if q, err := ReadQuestion(b); err == nil {
			again, err := ReadQuestion(q.Append(nil))
			require.NoError(t, err)
			require.Equal(t, q, again)
		} else {
			require.ErrorIs(t, err, ErrMessage)
		}
		require.Equal(t, before, b, "a message is not written to")
	})
}
