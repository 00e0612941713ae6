package directory

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/kvtier/store"
)

func someReport(rng *rand.Rand) *report {
	size := func() uint64 { return rng.Uint64N(largest) >> rng.IntN(50) }
	m := &report{
		kind: kindTell + byte(rng.IntN(4)), node: "node", id: rng.Uint64(), epoch: rng.Uint64(), at: size(), next: size(), kinds: []store.Kind{}, changes: []store.Change{},
	}
	for range rng.IntN(4) {
		m.kinds = append(m.kinds, store.Kind{ID: rng.Uint64(), Model: "model", Tokens: 1 + rng.IntN(128), Open: rng.IntN(2) == 0})
	}
	if len(m.kinds) > 0 {
		for range rng.IntN(300) {
			c := store.Change{Page: rng.Uint64(), Kind: uint32(rng.IntN(len(m.kinds))), Gone: rng.IntN(9) == 0}
			if n := len(m.changes); n > 0 && rng.IntN(8) > 0 {
				c.Kind, c.Gone = m.changes[n-1].Kind, m.changes[n-1].Gone
			}
			m.changes = append(m.changes, c)
		}
	}
	return m
}

func TestReportsReadAsWritten(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var got report // used again, as an Index does
	for range 2000 {
		want := someReport(rng)
		b := want.append(nil)
		require.NoError(t, got.read(b))
		require.Equal(t, want.kinds, append([]store.Kind{}, got.kinds...))
		require.Equal(t, want.changes, append([]store.Change{}, got.changes...))
		got.kinds, got.changes, want.kinds, want.changes = nil, nil, nil, nil
		require.Equal(t, *want, got)
		a := ask{kind: askContents + byte(rng.IntN(2)), epoch: rng.Uint64(), number: rng.Uint64N(largest)}
		b = a.text()
		read, err := readAsk(b)
		require.NoError(t, err)
		require.Equal(t, a, read)
		for cut := range b {
			_, err := readAsk(b[:cut])
			require.ErrorIs(t, err, ErrMessage)
		}
	}
}

// The longest report, whose changes are the worst to write, stays well below what NATS takes.
func TestReportsAreBounded(t *testing.T) {
	m := report{kind: kindTell, node: "node"}
	name := string(bytes.Repeat([]byte("x"), 2*longest))
	for i := range mostKinds {
		m.kinds = append(m.kinds, store.Kind{ID: uint64(i), Model: name, Tokens: 1})
	}
	for i := range mostChanges {
		m.changes = append(m.changes, store.Change{Page: 1, Kind: uint32(i % mostKinds), Gone: i%2 == 0})
	}
	b := m.append(nil)
	require.Less(t, len(b), 1<<20)
	var got report
	require.NoError(t, got.read(b))
	m.changes = append(m.changes, store.Change{})
	require.ErrorIs(t, got.read(m.append(nil)), ErrMessage, "more than there should be")
}

// FuzzReport: what is read without an error is written and read again the same, has no more pages and kinds than it has bytes for and changes of
// kinds that it names; all else is ErrMessage.
func FuzzReport(f *testing.F) {
	rng := rand.New(rand.NewPCG(2, 2))
	for range 20 {
		f.Add(someReport(rng).append(nil))
	}
	f.Add((&ask{kind: askMissed, epoch: 1, number: 2}).text())
	f.Fuzz(func(t *testing.T, b []byte) {
		kept := bytes.Clone(b)
		var m, again report
		if err := m.read(b); err != nil {
			require.ErrorIs(t, err, ErrMessage)
		} else {
			require.LessOrEqual(t, len(m.changes)*8+len(m.kinds)*11, len(b))
			require.LessOrEqual(t, len(m.changes), mostChanges)
			for i := range m.changes {
				require.Less(t, int(m.changes[i].Kind), len(m.kinds))
			}
			require.NoError(t, again.read(m.append(nil)))
			require.Equal(t, m, again)
		}
		if a, err := readAsk(b); err == nil {
			again, err := readAsk(a.text())
			require.NoError(t, err)
			require.Equal(t, a, again)
		} else {
			require.ErrorIs(t, err, ErrMessage)
		}
		require.Equal(t, kept, b, "a message is not written to")
	})
}
