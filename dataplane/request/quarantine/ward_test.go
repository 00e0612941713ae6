package quarantine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/request/quarantine"
)

var start = time.Unix(1_800_000_000, 0)

func at(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }

func lost(key uint64, worker string, seconds float64, turn *quarantine.Turn) quarantine.Loss {
	return quarantine.Loss{Key: key, Worker: worker, Died: true, Likely: true, At: at(seconds), Alive: at(seconds - 0.01), Turn: turn}
}

func TestSuspectThatEndsASecondEngineIsRefused(t *testing.T) {
	w := quarantine.New(quarantine.Config{For: time.Minute})
	require.False(t, w.Active())
	require.True(t, w.Lost(lost(1, "a", 0, nil)))
	require.True(t, w.Lost(lost(2, "a", 0, nil)))
	require.True(t, w.Active())
	for key := range uint64(2) {
		require.True(t, w.Look(key+1, at(0)).Suspect)
	}
	innocent := w.Take(1, "b", at(1))
	require.NotNil(t, innocent)
	require.Nil(t, w.Take(2, "b", at(1)), "one suspect on a worker")
	innocent.Begun()
	w.Clear(1)
	require.Equal(t, quarantine.Status{}, w.Look(1, at(1)))

	turn := w.Take(2, "b", at(2))
	require.NotNil(t, turn)
	require.Nil(t, w.Take(2, "c", at(2)), "an equal request waits for what becomes of the first")
	require.False(t, w.Lost(lost(2, "b", 3, turn)))
	require.True(t, w.Lost(lost(3, "b", 3, nil)), "the death has its cause")
	require.Nil(t, w.Take(2, "c", at(4)))
	s := w.Look(2, at(13))
	require.Equal(t, 50*time.Second, s.Refused)
	require.Equal(t, 2, s.Deaths)

	// After that time one more engine shows whether anything has changed.
	require.True(t, w.Look(2, at(64)).Suspect)
	turn = w.Take(2, "c", at(64))
	require.NotNil(t, turn)
	require.False(t, w.Lost(lost(2, "c", 65, turn)))
	require.NotZero(t, w.Look(2, at(66)).Refused)
}

func TestEqualRequestsTellOfOneDeathOnce(t *testing.T) {
	w := quarantine.New(quarantine.Config{})
	for range 3 {
		require.True(t, w.Lost(lost(1, "a", 0, nil)))
	}
	require.Equal(t, 1, w.Look(1, at(0)).Deaths)
	require.False(t, w.Lost(lost(1, "b", 0, nil)), "another engine's death")
}

func TestADeathIsCountedOnce(t *testing.T) {
	w := quarantine.New(quarantine.Config{})
	require.True(t, w.Lost(lost(1, "a", 0, nil)))
	l := lost(1, "a", 10, w.Take(1, "a", at(9)))
	l.Alive = at(-1)
	require.True(t, w.Lost(l), "the worker has been dead since the first time")
	require.Equal(t, 1, w.Look(1, at(10)).Deaths)
	require.False(t, w.Lost(lost(1, "a", 20, w.Take(1, "a", at(19)))))
}

func TestWhatRanLongNeedsNoTurn(t *testing.T) {
	w := quarantine.New(quarantine.Config{})
	l := lost(1, "a", 0, nil)
	l.Likely = false
	require.True(t, w.Lost(l))
	require.False(t, w.Look(1, at(0)).Suspect)
	l.Worker = "b"
	require.True(t, w.Lost(l), "two engines may be restarted one after the other")
	require.True(t, w.Look(1, at(0)).Suspect, "but it is tried alone now")
	l.Worker = "c"
	require.False(t, w.Lost(l), "and a third death counts")
}

func TestDeathInATurnIsItsHoldersAlone(t *testing.T) {
	w := quarantine.New(quarantine.Config{})
	for key := range uint64(3) {
		require.True(t, w.Lost(lost(key+1, "a", 0, nil)))
	}
	first := w.Take(1, "b", at(1))
	second := w.Take(2, "b", at(2)) // the first one's turn is over by time
	require.NotNil(t, second)
	require.True(t, w.Lost(lost(1, "b", 2.1, first)))
	long := lost(9, "b", 2.1, nil)
	long.Likely = false
	require.True(t, w.Lost(long))
	require.Equal(t, quarantine.Status{}, w.Look(9, at(3)))
	require.False(t, w.Lost(lost(2, "b", 2.2, second)))
	require.True(t, w.Lost(lost(1, "b", 2.3, nil)), "told of late")
	require.True(t, w.Look(1, at(3)).Suspect)
}

func TestLostConnectionsOfALivingWorker(t *testing.T) {
	w := quarantine.New(quarantine.Config{})
	l := lost(1, "a", 0, nil)
	l.Died = false
	require.True(t, w.Lost(l))
	require.True(t, w.Lost(l))
	require.False(t, w.Lost(l), "it may have restarted faster than it was asked")
}

func TestWardIsBounded(t *testing.T) {
	w := quarantine.New(quarantine.Config{})
	for key := range uint64(40_000) {
		w.Lost(lost(key, "a", 0, nil))
	}
	assert.LessOrEqual(t, w.Cases(), int64(1<<14))
}

func TestTurnEndsAreHeard(t *testing.T) {
	w := quarantine.New(quarantine.Config{})
	w.Lost(lost(1, "a", 0, nil))
	turn := w.Take(1, "b", at(1))
	require.Equal(t, []string{"b"}, w.Busy(nil, at(1)))
	changed := w.Wait()
	turn.End()
	<-changed
	require.Empty(t, w.Busy(nil, at(1)))
	require.False(t, w.Trying())
	(*quarantine.Turn)(nil).End()
	(*quarantine.Turn)(nil).Begun()
}

func TestTwinsGoToTwoWorkers(t *testing.T) {
	var tw quarantine.Twins
	join := func(like uint64, worker string) bool { return tw.Join(like, worker, at(0)) }
	require.True(t, join(7, "a"))
	require.True(t, join(7, "b"))
	require.True(t, join(7, "a"))
	require.False(t, join(7, "c"))
	require.True(t, tw.Holds(7, "a"))
	require.False(t, tw.Holds(7, "c"))
	tw.Leave(7, "b", false)
	require.True(t, join(7, "c"))
	tw.Leave(7, "a", true)
	require.True(t, join(7, "d"), "one of them was answered")
	require.False(t, tw.Flying(7))
	require.True(t, join(8, "d"))
}

func TestTwinsThatAWorkerSurvivesAreFree(t *testing.T) {
	var tw quarantine.Twins
	require.True(t, tw.Join(7, "a", time.Time{}))
	require.True(t, tw.Join(7, "b", at(1)))
	var asked []string
	alive := func(yes bool) func(string, time.Time) bool {
		return func(worker string, since time.Time) bool {
			require.Equal(t, at(1), since)
			asked = append(asked, worker)
			return yes
		}
	}
	require.False(t, tw.Survived(7, alive(false)))
	require.False(t, tw.Survived(8, alive(true)), "another request")
	require.Equal(t, []string{"b"}, asked, "a stream without a first event was not computed")
	require.False(t, tw.Join(7, "c", at(2)))
	require.True(t, tw.Survived(7, alive(true)))
	require.True(t, tw.Join(7, "c", at(3)))
	require.False(t, tw.Flying(7))
}

func TestWhatFailedIsNoProofOfSurvival(t *testing.T) {
	var tw quarantine.Twins
	require.True(t, tw.Join(7, "a", at(0)))
	require.True(t, tw.Join(7, "a", at(1)))
	tw.Leave(7, "a", false)
	yes := func(string, time.Time) bool { return true }
	require.False(t, tw.Survived(7, yes), "which of the two has left is not known")
	require.True(t, tw.Join(7, "a", at(2)))
	require.True(t, tw.Survived(7, yes))
}

// TestClientThatLeavesIsNoExcuse: clients leave before the death of their engine is known, and ask again.
func TestClientThatLeavesIsNoExcuse(t *testing.T) {
	w := quarantine.New(quarantine.Config{})
	w.Left(1, "a", at(0))
	w.Left(2, "b", at(0))
	require.False(t, w.Active(), "nobody has died")
	w.Died("a", at(10))
	require.True(t, w.Look(1, at(10)).Suspect)
	require.False(t, w.Look(2, at(10)).Suspect, "another worker's")
	w.Died("a", at(30))
	require.Equal(t, 1, w.Look(1, at(30)).Deaths, "it was not there any more")
	w.Left(1, "b", at(40))
	w.Died("b", at(200))
	require.Zero(t, w.Look(1, at(200)).Refused, "too long ago")
	w.Left(1, "b", at(210))
	w.Died("b", at(220))
	require.Positive(t, w.Look(1, at(220)).Refused)
	for i := range 2000 {
		w.Left(uint64(i), "c", at(300))
	}
	w.Died("c", at(301))
	require.LessOrEqual(t, w.Cases(), int64(600))
}
