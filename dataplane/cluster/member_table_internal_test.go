package cluster

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// rec makes the record of node n.
func rec(n, instance string, seq uint64) *record {
	return &record{Version: version, Instance: instance, Seq: seq, Node: &Node{Name: n, GPUs: []GPU{{UUID: "g"}}}}
}

func nodeKey(n string) key { return key{kindNode, n} }

func beatOf(n, instance string, seq uint64, facts ...int64) *beat {
	return &beat{Kind: kindNode, Name: n, Instance: instance, Seq: seq, Facts: facts}
}

// shown lists the nodes of the table's view.
func shown(t *memberTable) (list []string) {
	for _, n := range t.view(&markSet{}, true, time.Time{}).Nodes {
		list = append(list, n.Name)
	}
	return list
}

// loaded is a table that has read a snapshot with these nodes.
func loaded(names ...string) *memberTable {
	t := newMemberTable()
	t.begin()
	for _, n := range names {
		t.put(nodeKey(n), rec(n, "i", 1))
	}
	t.end()
	return t
}

// pongs lets d pass as NATS is heard every pingEvery.
func pongs(t *memberTable, d time.Duration) {
	for ; d > 0; d -= pingEvery {
		t.pong(min(d, pingEvery))
	}
}

func TestLeaseOnTheClock(t *testing.T) {
	tb := loaded("a", "b")
	assert.Empty(t, shown(tb), "nobody was heard")
	tb.beat(beatOf("a", "i", 1))
	tb.beat(beatOf("b", "other", 1)) // no beat of the record
	assert.Equal(t, []string{"a"}, shown(tb))
	pongs(tb, Lease)
	assert.Equal(t, []string{"a"}, shown(tb))
	tb.pong(1)
	assert.Empty(t, shown(tb))
	tb.beat(beatOf("a", "i", 1)) // it had stood still
	assert.Equal(t, []string{"a"}, shown(tb))
	// A dead process is out 2.0 to 2.6 s after, and the issue asks for 3 s.
	assert.LessOrEqual(t, Lease+pingEvery, 2600*time.Millisecond)
	assert.Less(t, pongGap+beatEvery, Lease, "waiting for one PONG must not end a lease")
}

// TestBeatsOfNobody: a holder of a router's token beats for any number of names that have no record. They take bounded memory, and nobody's
// place.
func TestBeatsOfNobody(t *testing.T) {
	tb := loaded("a", "b")
	tb.beat(beatOf("a", "i", 1))
	for n := range 100_000 {
		tb.beat(beatOf(fmt.Sprint("nobody", n), "i", 1))
	}
	assert.LessOrEqual(t, len(tb.members), 10_000)
	tb.beat(beatOf("b", "i", 1))
	tb.put(nodeKey("c"), rec("c", "i", 1))
	tb.beat(beatOf("c", "i", 1))
	assert.Equal(t, []string{"a", "b", "c"}, shown(tb))
	pongs(tb, Lease+pingEvery)
	assert.Len(t, tb.members, 3)
}

func TestNoLeaseEndsWhileDeaf(t *testing.T) {
	tb := loaded("a")
	tb.beat(beatOf("a", "i", 1))
	pongs(tb, Lease)
	for range 100 {
		tb.pong(pongGap + 1) // gaps in which beats may have been lost
	}
	assert.Equal(t, []string{"a"}, shown(tb))
	pongs(tb, Lease)
	assert.Equal(t, []string{"a"}, shown(tb), "a lease of grace")
	tb.pong(1)
	assert.Empty(t, shown(tb))
}

func TestWithdrawal(t *testing.T) {
	tb := loaded("a", "b")
	tb.beat(beatOf("a", "i", 1))
	tb.beat(beatOf("b", "i", 1))
	tb.beat(&beat{Kind: kindNode, Name: "a", Instance: "before", Bye: true})
	assert.Equal(t, []string{"a", "b"}, shown(tb), "another process of the name went")
	tb.beat(&beat{Kind: kindNode, Name: "a", Instance: "i", Bye: true})
	tb.remove(nodeKey("b"))
	assert.Empty(t, shown(tb))
	assert.True(t, tb.changed)
}

func TestRecordsAfterTheSnapshotAreHeard(t *testing.T) {
	tb := loaded()
	tb.put(nodeKey("a"), rec("a", "i", 1))
	assert.Equal(t, []string{"a"}, shown(tb))
	tb.lost()
	tb.begin()
	tb.put(nodeKey("a"), rec("a", "i", 1))
	tb.put(nodeKey("b"), rec("b", "i", 1))
	tb.end()
	assert.Equal(t, []string{"a"}, shown(tb), "b may be long dead")
	tb.begin() // of a store that lost everything
	tb.end()
	assert.Equal(t, []string{"a"}, shown(tb), "it has its lease")
	assert.NotContains(t, tb.members, nodeKey("b"))
}

func TestWhole(t *testing.T) {
	tb := newMemberTable()
	assert.False(t, tb.whole())
	tb = loaded()
	assert.True(t, tb.whole(), "nobody to wait for")
	tb = loaded("a", "b")
	tb.beat(beatOf("a", "i", 1))
	assert.False(t, tb.whole(), "b may live")
	pongs(tb, firstBeatTime-1)
	assert.False(t, tb.whole())
	tb.pong(1)
	assert.True(t, tb.whole(), "b would have been heard")
	tb.lost()
	assert.False(t, tb.whole())
	tb = loaded("a")
	tb.beat(beatOf("a", "i", 1))
	assert.True(t, tb.whole(), "all were heard")
}

func TestFactsBelongToTheirRecord(t *testing.T) {
	tb := loaded("a")
	used := func() uint64 { return tb.view(&markSet{}, true, time.Time{}).Nodes[0].GPUs[0].Used }
	tb.beat(beatOf("a", "i", 1, 5, 10000, 6))
	assert.EqualValues(t, 5<<20, used())
	before := tb.view(&markSet{}, true, time.Time{})
	for _, b := range []*beat{
		beatOf("a", "i", 2, 7, 1, 1),     // of a record that is on its way
		beatOf("a", "i", 1, 7, 1),        // of another shape
		beatOf("a", "i", 1, 7, 10001, 1), // of more than all
		beatOf("a", "i", 1, 7, 1, -1), beatOf("a", "i", 1, 1<<62, 1, 1),
		beatOf("a", "other", 1, 7, 1, 1),
	} {
		tb.beat(b)
		assert.EqualValues(t, 5<<20, used(), "%+v", b)
	}
	tb.beat(beatOf("a", "i", 1, 9, 1, 1))
	assert.EqualValues(t, 9<<20, used())
	assert.EqualValues(t, 5<<20, before.Nodes[0].GPUs[0].Used, "a view never changes")
	tb.beat(beatOf("a", "i", 1))
	assert.Zero(t, used(), "the record's own again")
}

func TestMissingRecordsAreAskedForOnce(t *testing.T) {
	tb := loaded("a", "b", "f")
	tb.unreadable(nodeKey("n"))
	var wants []recordRequest
	deaths := 0
	for range 20 * int(time.Second/beatEvery) {
		tb.beat(beatOf("a", "new", 1)) // its record does not come
		tb.beat(beatOf("b", "i", 1))
		tb.beat(beatOf("f", "i", 2)) // the next one does not come
		tb.beat(beatOf("n", "i", 1)) // cannot be read
		pongs(tb, beatEvery)
		w, dead := tb.missingRecords()
		if wants = append(wants, w...); dead {
			deaths++
		}
	}
	assert.ElementsMatch(t, []recordRequest{{nodeKey("f"), "i"}}, wants[:1])
	assert.LessOrEqual(t, len(wants), 12, "a's episode ends with each lease")
	assert.Positive(t, deaths)
	for _, w := range wants {
		assert.NotEqual(t, "n", w.name)
	}
	assert.Equal(t, []string{"b", "f"}, shown(tb))
	tb.put(nodeKey("a"), rec("a", "new", 1))
	tb.put(nodeKey("f"), rec("f", "i", 2))
	tb.pong(pingEvery)
	pongs(tb, 2*missingAfter)
	w, _ := tb.missingRecords()
	assert.Empty(t, w)
}

// TestTableAgainstNaive plays random histories to the table and to the obvious model: members
// live that have beaten within the lease.
func TestTableAgainstNaive(t *testing.T) {
	names := []string{"a", "b", "c"}
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 1))
		tb := loaded()
		now, heard := time.Duration(0), map[string]time.Duration{}
		owner := map[string]string{} // instance of the record
		for step := range 200 {
			n := names[rng.IntN(len(names))]
			instance := fmt.Sprint("i", rng.IntN(2))
			switch rng.IntN(6) {
			case 0:
				tb.put(nodeKey(n), rec(n, instance, uint64(step+1)))
				owner[n], heard[n] = instance, now
			case 1, 2:
				tb.beat(beatOf(n, instance, 1))
				if owner[n] == instance {
					heard[n] = now
				}
			case 3:
				if rng.IntN(4) == 0 {
					tb.beat(&beat{Kind: kindNode, Name: n, Instance: instance, Bye: true})
					if owner[n] == instance {
						delete(owner, n)
						delete(heard, n)
					}
				}
			default:
				d := time.Duration(rng.Int64N(int64(pongGap)))
				now += d
				tb.pong(d)
			}
			var want []string
			for _, n := range names {
				if at, ok := heard[n]; ok && now-at <= Lease {
					want = append(want, n)
				}
			}
			require.Equal(t, want, shown(tb), "seed %d step %d", seed, step)
		}
	}
}

func TestMarksOfALostStore(t *testing.T) {
	first, second := time.Unix(1, 0), time.Unix(2, 0)
	m := newMarkSet()
	m.begin(first, 2)
	m.set(Mark{Target: "a"}, 1)
	m.set(Mark{Target: "b"}, 1)
	m.end()
	assert.Empty(t, m.unsaved())
	m.begin(first, 3) // after an outage in which b was taken back
	m.set(Mark{Target: "a"}, 1)
	m.end()
	assert.Empty(t, m.unsaved())
	assert.NotContains(t, m.list, "b")
	m.set(Mark{Target: "c"}, 1)
	m.begin(second, 1) // another store, in which c was set again already
	m.remove("c", 1)
	m.end()
	assert.Equal(t, []Mark{{Target: "a"}}, m.unsaved())
	assert.Contains(t, m.list, "a", "it holds until it is written again")
	m.begin(second, 1) // read again before it was written
	m.remove("c", 1)
	m.end()
	assert.Equal(t, []Mark{{Target: "a"}}, m.unsaved())
	m.set(Mark{Target: "a"}, 1)
	assert.Empty(t, m.unsaved())
	m.begin(second, 0) // a copy of the store from before
	m.end()
	assert.Equal(t, []Mark{{Target: "a"}}, m.unsaved())
}

// TestNodesOfALaterRelease live by their beats and have no record that can be read; one that goes back to
// a known release has one again.
func TestNodesOfALaterRelease(t *testing.T) {
	tb := loaded("a")
	newer := func() []string { return tb.view(&markSet{}, true, time.Time{}).Newer }
	tb.beat(beatOf("a", "i", 1))
	require.Equal(t, []string{"a"}, shown(tb))
	for range 8 {
		tb.beatNewer(nodeKey("a"))
		tb.beatNewer(nodeKey("b"))
		tb.beatNewer(key{kindRouter, "r"})
		pongs(tb, Lease)
		require.Empty(t, shown(tb), "what is known of a may be wrong by now")
		require.Equal(t, []string{"a", "b"}, newer())
		wants, dead := tb.missingRecords()
		require.Empty(t, wants)
		require.False(t, dead)
	}
	tb.beat(beatOf("a", "i", 1))
	require.Equal(t, []string{"a"}, shown(tb))
	require.Equal(t, []string{"b"}, newer())
	pongs(tb, 2*Lease)
	require.Empty(t, newer())
}
