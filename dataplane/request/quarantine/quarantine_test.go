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

func lost(key uint64, worker string, seconds float64, trial *quarantine.Trial) quarantine.Loss {
	return quarantine.Loss{Key: key, Worker: worker, Died: true, Likely: true, At: at(seconds), Alive: at(seconds - 0.01), Trial: trial}
}

func TestSuspectThatEndsASecondEngineIsRefused(t *testing.T) {
	q := quarantine.New(quarantine.Config{For: time.Minute})
	require.False(t, q.Active())
	require.True(t, q.Lost(lost(1, "a", 0, nil)))
	require.True(t, q.Lost(lost(2, "a", 0, nil)))
	require.True(t, q.Active())
	for key := range uint64(2) {
		require.True(t, q.Lookup(key+1, at(0)).Suspect)
	}
	innocent := q.BeginTrial(1, "b", at(1))
	require.NotNil(t, innocent)
	require.Nil(t, q.BeginTrial(2, "b", at(1)), "one suspect on a worker")
	innocent.AnswerBegan()
	q.Clear(1)
	require.Equal(t, quarantine.Status{}, q.Lookup(1, at(1)))

	trial := q.BeginTrial(2, "b", at(2))
	require.NotNil(t, trial)
	require.Nil(t, q.BeginTrial(2, "c", at(2)), "an equal request waits for the outcome of the first")
	require.False(t, q.Lost(lost(2, "b", 3, trial)))
	require.True(t, q.Lost(lost(3, "b", 3, nil)), "the death has its cause")
	require.Nil(t, q.BeginTrial(2, "c", at(4)))
	s := q.Lookup(2, at(13))
	require.Equal(t, 50*time.Second, s.Refused)
	require.Equal(t, 2, s.Deaths)

	// After that time one more engine shows whether anything has changed.
	require.True(t, q.Lookup(2, at(64)).Suspect)
	trial = q.BeginTrial(2, "c", at(64))
	require.NotNil(t, trial)
	require.False(t, q.Lost(lost(2, "c", 65, trial)))
	require.NotZero(t, q.Lookup(2, at(66)).Refused)
}

func TestEqualRequestsReportOneDeath(t *testing.T) {
	q := quarantine.New(quarantine.Config{})
	for range 3 {
		require.True(t, q.Lost(lost(1, "a", 0, nil)))
	}
	require.Equal(t, 1, q.Lookup(1, at(0)).Deaths)
	require.False(t, q.Lost(lost(1, "b", 0, nil)), "another engine's death")
}

func TestADeathIsCountedOnce(t *testing.T) {
	q := quarantine.New(quarantine.Config{})
	require.True(t, q.Lost(lost(1, "a", 0, nil)))
	l := lost(1, "a", 10, q.BeginTrial(1, "a", at(9)))
	l.Alive = at(-1)
	require.True(t, q.Lost(l), "the worker has been dead since the first time")
	require.Equal(t, 1, q.Lookup(1, at(10)).Deaths)
	require.False(t, q.Lost(lost(1, "a", 20, q.BeginTrial(1, "a", at(19)))))
}

func TestLongRequestNeedsNoTrial(t *testing.T) {
	q := quarantine.New(quarantine.Config{})
	l := lost(1, "a", 0, nil)
	l.Likely = false
	require.True(t, q.Lost(l))
	require.False(t, q.Lookup(1, at(0)).Suspect)
	l.Worker = "b"
	require.True(t, q.Lost(l), "two engines may be restarted one after the other")
	require.True(t, q.Lookup(1, at(0)).Suspect, "but it is tried alone now")
	l.Worker = "c"
	require.False(t, q.Lost(l), "and a third death counts")
}

func TestDeathInATrialHasOneCause(t *testing.T) {
	q := quarantine.New(quarantine.Config{})
	for key := range uint64(3) {
		require.True(t, q.Lost(lost(key+1, "a", 0, nil)))
	}
	first := q.BeginTrial(1, "b", at(1))
	second := q.BeginTrial(2, "b", at(2)) // the first trial is over by time
	require.NotNil(t, second)
	require.True(t, q.Lost(lost(1, "b", 2.1, first)))
	long := lost(9, "b", 2.1, nil)
	long.Likely = false
	require.True(t, q.Lost(long))
	require.Equal(t, quarantine.Status{}, q.Lookup(9, at(3)))
	require.False(t, q.Lost(lost(2, "b", 2.2, second)))
	require.True(t, q.Lost(lost(1, "b", 2.3, nil)), "a late report")
	require.True(t, q.Lookup(1, at(3)).Suspect)
}

func TestLostConnectionsOfALivingWorker(t *testing.T) {
	q := quarantine.New(quarantine.Config{})
	l := lost(1, "a", 0, nil)
	l.Died = false
	require.True(t, q.Lost(l))
	require.True(t, q.Lost(l))
	require.False(t, q.Lost(l), "it may have restarted faster than it was asked")
}

func TestQuarantineIsBounded(t *testing.T) {
	q := quarantine.New(quarantine.Config{})
	for key := range uint64(40_000) {
		q.Lost(lost(key, "a", 0, nil))
	}
	assert.LessOrEqual(t, q.Suspects(), int64(1<<14))
}

func TestTrialEndsAreAnnounced(t *testing.T) {
	q := quarantine.New(quarantine.Config{})
	q.Lost(lost(1, "a", 0, nil))
	trial := q.BeginTrial(1, "b", at(1))
	require.Equal(t, []string{"b"}, q.TrialWorkers(nil, at(1)))
	changed := q.Changed()
	trial.End()
	<-changed
	require.Empty(t, q.TrialWorkers(nil, at(1)))
	require.False(t, q.Trying())
	(*quarantine.Trial)(nil).End()
	(*quarantine.Trial)(nil).AnswerBegan()
}

func TestDuplicatesGoToTwoWorkers(t *testing.T) {
	var d quarantine.Duplicates
	join := func(likeness uint64, worker string) bool { return d.Begin(likeness, worker, at(0)) }
	require.True(t, join(7, "a"))
	require.True(t, join(7, "b"))
	require.True(t, join(7, "a"))
	require.False(t, join(7, "c"))
	require.True(t, d.InFlightAt(7, "a"))
	require.False(t, d.InFlightAt(7, "c"))
	d.End(7, "b", false)
	require.True(t, join(7, "c"))
	d.End(7, "a", true)
	require.True(t, join(7, "d"), "one of them was answered")
	require.False(t, d.InFlight(7))
	require.True(t, join(8, "d"))
}

func TestSurvivedDuplicatesAreNotLimited(t *testing.T) {
	var d quarantine.Duplicates
	require.True(t, d.Begin(7, "a", time.Time{}))
	require.True(t, d.Begin(7, "b", at(1)))
	var asked []string
	alive := func(yes bool) func(string, time.Time) bool {
		return func(worker string, since time.Time) bool {
			require.Equal(t, at(1), since)
			asked = append(asked, worker)
			return yes
		}
	}
	require.False(t, d.Survived(7, alive(false)))
	require.False(t, d.Survived(8, alive(true)), "another request")
	require.Equal(t, []string{"b"}, asked, "a stream without a first event was not computed")
	require.False(t, d.Begin(7, "c", at(2)))
	require.True(t, d.Survived(7, alive(true)))
	require.True(t, d.Begin(7, "c", at(3)))
	require.False(t, d.InFlight(7))
}

func TestFailedDuplicateProvesNoSurvival(t *testing.T) {
	var d quarantine.Duplicates
	require.True(t, d.Begin(7, "a", at(0)))
	require.True(t, d.Begin(7, "a", at(1)))
	d.End(7, "a", false)
	yes := func(string, time.Time) bool { return true }
	require.False(t, d.Survived(7, yes), "which of the two has left is not known")
	require.True(t, d.Begin(7, "a", at(2)))
	require.True(t, d.Survived(7, yes))
}

// TestAbandonedRequestIsASuspect: clients leave before the death of their engine is known, and send
// the request again.
func TestAbandonedRequestIsASuspect(t *testing.T) {
	q := quarantine.New(quarantine.Config{})
	q.Abandoned(1, "r", "a", at(0))
	q.Abandoned(2, "r", "b", at(0))
	require.False(t, q.Active(), "no worker has died")
	q.WorkerDied("a", at(10))
	require.True(t, q.Lookup(1, at(10)).Suspect)
	require.False(t, q.Lookup(2, at(10)).Suspect, "another worker's")
	q.WorkerDied("a", at(30))
	require.Equal(t, 1, q.Lookup(1, at(30)).Deaths, "it was not there any more")
	q.Abandoned(1, "r", "b", at(40))
	q.WorkerDied("b", at(200))
	require.Zero(t, q.Lookup(1, at(200)).Refused, "too long ago")
	q.Abandoned(1, "r", "b", at(210))
	q.WorkerDied("b", at(220))
	require.Positive(t, q.Lookup(1, at(220)).Refused)
	for i := range 2000 {
		q.Abandoned(uint64(i), "r", "c", at(300))
	}
	q.WorkerDied("c", at(301))
	require.LessOrEqual(t, q.Suspects(), int64(600))
}
