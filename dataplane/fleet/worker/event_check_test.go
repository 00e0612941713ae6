package worker_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

// TestEventsThatAreWrong: events are set aside after several wrong findings in a share of all, for
// the worst reason, and believed again after more that are right.
func TestEventsThatAreWrong(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	claim := func(told, expect, cached int) worker.EventClaim {
		return worker.EventClaim{Told: told, Expect: max(told, expect), Cached: cached, Page: 16, Pool: 100_000}
	}
	right, less, more := claim(1000, 0, 1000), claim(16, 0, 1000), claim(1000, 0, 16)
	evicted := more
	evicted.Removed = 1600
	tests := []struct {
		name    string
		claims  []worker.EventClaim // in turn
		n       int
		batches []bool // readable
		fault   worker.EventFault
	}{
		{"right", []worker.EventClaim{right}, 100, []bool{true}, worker.NoEventFault},
		{"less", []worker.EventClaim{less}, 6, nil, worker.EventsTellLess},
		{"a few times less", []worker.EventClaim{less}, 5, nil, worker.NoEventFault},
		{"one in twelve less", append([]worker.EventClaim{less}, repeated(right, 11)...), 300, nil, worker.NoEventFault},
		{"one in eight less", append([]worker.EventClaim{less}, repeated(right, 7)...), 64, nil, worker.EventsTellLess},
		{"two in three less", []worker.EventClaim{less, less, right}, 20, nil, worker.EventsTellLess},
		{"more", []worker.EventClaim{more}, 4, nil, worker.EventsTellMore},
		{"one in four more", []worker.EventClaim{more, right, right, right}, 40, nil, worker.EventsTellMore},
		{"one in twenty more", append([]worker.EventClaim{more}, repeated(right, 19)...), 200, nil, worker.NoEventFault},
		{"less, and then more", append(repeated(less, 6), repeated(more, 6)...), 12, nil, worker.EventsTellMore},
		{"a page less", []worker.EventClaim{claim(984, 0, 1000)}, 100, nil, worker.NoEventFault},
		{"short prompts", []worker.EventClaim{claim(0, 0, 16)}, 100, nil, worker.NoEventFault},
		{"requests in flight had it", []worker.EventClaim{claim(0, 1000, 1000)}, 100, nil, worker.NoEventFault},
		{"a store had it", []worker.EventClaim{{Cached: 1000, Page: 16, Pool: 100_000, Storage: true}}, 100, nil, worker.NoEventFault},
		{"evicted in the queue", []worker.EventClaim{{Told: 1000, Expect: 1000, Page: 16, Ahead: 50_000, Pool: 100_000}}, 100, nil, worker.NoEventFault},
		{"computed for others meanwhile", []worker.EventClaim{{Cached: 1000, Since: 1000, Page: 16, Pool: 100_000}}, 100, nil, worker.NoEventFault},
		{"never told of", []worker.EventClaim{{Cached: 1000, Since: 16, Page: 16, Pool: 100_000}}, 6, nil, worker.EventsTellLess},
		{"evicted meanwhile, one in four", []worker.EventClaim{evicted, right, right, right}, 100, nil, worker.NoEventFault},
		{"evicted meanwhile, as it seems", []worker.EventClaim{evicted}, 12, nil, worker.EventsTellMore},
		{"more than was evicted meanwhile", []worker.EventClaim{{Told: 1000, Expect: 1000, Page: 16, Pool: 100_000, Removed: 160}}, 4, nil, worker.EventsTellMore},
		{"unreadable", nil, 6, []bool{false}, worker.EventsUnreadable},
		{"one batch in two unreadable", nil, 30, []bool{false, true}, worker.EventsUnreadable},
		{"one batch in five unreadable", nil, 100, []bool{false, true, true, true, true}, worker.NoEventFault},
		{"less and unreadable", []worker.EventClaim{less}, 20, []bool{false}, worker.EventsUnreadable},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var r worker.Rank
			r.SetExact(true)
			for i := range tt.n {
				if len(tt.claims) > 0 {
					r.CompareEvents(now, tt.claims[i%len(tt.claims)])
				}
				if len(tt.batches) > 0 {
					r.ReadBatch(now, tt.batches[i%len(tt.batches)])
				}
			}
			require.Equal(t, tt.fault.Why(), r.Events.Fault().Why())
			require.Equal(t, tt.fault == worker.NoEventFault, r.Exact())
			require.Equal(t, tt.fault <= worker.EventsTellLess, r.Events.Credited())
			if tt.fault == worker.NoEventFault {
				return
			}
			require.Equal(t, now, r.Events.Since())
			times := r.Events.Times()
			heal := func() (n int) {
				for ; r.Events.Fault() != worker.NoEventFault; n++ {
					require.Less(t, n, 2100, "right findings")
					r.CompareEvents(now, right)
					r.ReadBatch(now, true)
				}
				return n
			}
			once := heal()
			require.True(t, r.Exact())
			require.Equal(t, times, r.Events.Times())
			for range 40 {
				r.CompareEvents(now, less)
			}
			require.Equal(t, worker.EventsTellLess, r.Events.Fault())
			require.Greater(t, heal(), 4*once, "the second time it takes much longer")
		})
	}
}

func repeated(c worker.EventClaim, n int) (all []worker.EventClaim) {
	for range n {
		all = append(all, c)
	}
	return all
}

// TestManyProcesses: one restart is a restart, and so are a few far apart; several within a few
// hundred batches are none, for as long as they go on.
func TestManyProcesses(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	restarts := func(r *worker.Rank, n, every int) {
		for range n {
			r.OtherProcess(now)
			for range every {
				r.ReadBatch(now, true)
			}
		}
	}
	var rare, r worker.Rank
	restarts(&rare, 50, 300)
	require.Equal(t, worker.NoEventFault, rare.Events.Fault())
	restarts(&r, 2, 50)
	require.Equal(t, worker.NoEventFault, r.Events.Fault())
	restarts(&r, 1, 50)
	require.Equal(t, worker.EventsUnreadable, r.Events.Fault())
	restarts(&r, 100, 50)
	require.Equal(t, worker.EventsUnreadable, r.Events.Fault(), "while they go on")
	require.EqualValues(t, 1, r.Events.Times())
	restarts(&r, 1, 128)
	require.Equal(t, worker.NoEventFault, r.Events.Fault())
}

// TestHistoryUnknown: of a rank that is followed without its history, nothing follows from prompts of
// which no event told.
func TestHistoryUnknown(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	var r worker.Rank
	for range 100 {
		r.CompareEvents(now, worker.EventClaim{Cached: 1000, Page: 16, Pool: 100_000})
	}
	require.Equal(t, worker.NoEventFault, r.Events.Fault())
	r.SetExact(true)
	r.SetDoubt(worker.DoubtIndex)
	for range 100 {
		r.CompareEvents(now, worker.EventClaim{Cached: 1000, Page: 16, Pool: 100_000})
	}
	require.Equal(t, worker.NoEventFault, r.Events.Fault())
}

// TestLostEvents: a hole sets the events aside at once, until the history is whole or answers show that
// the other events tell all. A worse reason stays.
func TestLostEvents(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	right := worker.EventClaim{Told: 1000, Expect: 1000, Cached: 1000, Page: 16, Pool: 100_000}
	newRank := func() *worker.Rank {
		r := new(worker.Rank)
		r.SetExact(true)
		r.LostEvents(now)
		require.Equal(t, worker.EventsLost, r.Events.Fault())
		require.False(t, r.Exact())
		require.True(t, r.Events.Credited(), "what events told is right")
		return r
	}
	t.Run("whole", func(t *testing.T) {
		r := newRank()
		r.WholeHistory()
		require.True(t, r.Exact())
	})
	t.Run("healed by answers", func(t *testing.T) {
		r := newRank()
		for range 127 {
			r.CompareEvents(now, right)
			require.False(t, r.Exact())
		}
		r.CompareEvents(now, right)
		require.True(t, r.Exact())
	})
	t.Run("worse", func(t *testing.T) {
		r := newRank()
		for range 10 {
			r.CompareEvents(now, worker.EventClaim{Told: 1000, Expect: 1000, Cached: 0, Page: 16, Pool: 100_000})
		}
		r.WholeHistory()
		r.LostEvents(now)
		require.Equal(t, worker.EventsTellMore, r.Events.Fault())
	})
}

// TestEventsThatTellLess are as new from the first answer on that found more than they told of.
func TestEventsThatTellLess(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	right := worker.EventClaim{Told: 1000, Expect: 1000, Cached: 1000, Page: 16, Pool: 100_000}
	less, more := right, right
	less.Told, less.Expect = 0, 0
	more.Cached = 0
	var r worker.Rank
	r.SetExact(true)
	isNew := func() bool {
		is, _ := r.Events.New()
		return is
	}
	for range 64 {
		require.True(t, isNew())
		r.CompareEvents(now, right)
	}
	require.False(t, isNew())
	r.CompareEvents(now, more)
	require.False(t, isNew(), "the tree would claim more still")
	for range 2 {
		r.CompareEvents(now, less)
		for i := range 64 {
			is, answered := r.Events.New()
			require.True(t, is && answered, "%d", i)
			r.CompareEvents(now, right)
		}
		require.False(t, isNew())
	}
	require.Equal(t, worker.NoEventFault, r.Events.Fault())
}

// TestNewEvents are so until answers have met them, many came that could not, or a while has passed.
func TestNewEvents(t *testing.T) {
	isNew := func(rank *worker.Rank) bool {
		is, _ := rank.Events.New()
		return is
	}
	watch(t, nil, func(b *bench) {
		b.after(9 * time.Minute)
		require.True(t, isNew(b.worker.Ranks()[0]))
		b.after(2 * time.Minute)
		require.False(t, isNew(b.worker.Ranks()[0]))
	})
	for name, test := range map[string]struct {
		claim   worker.EventClaim
		answers int // that end it
	}{
		"right":   {worker.EventClaim{Told: 160, Expect: 160, Cached: 160, Page: 16}, 64},
		"more":    {worker.EventClaim{Told: 160, Expect: 160, Page: 16}, 256},
		"nothing": {worker.EventClaim{Page: 16}, 256},
	} {
		t.Run(name, func(t *testing.T) {
			watch(t, nil, func(b *bench) {
				b.after(time.Second)
				for range 2 {
					rank := b.worker.Ranks()[0]
					rank.SetExact(true)
					for i := range test.answers {
						require.True(t, isNew(rank), i)
						rank.Events.Answered()
						rank.CompareEvents(time.Now(), test.claim)
					}
					require.False(t, isNew(rank))
					b.fake.set(refusing) // the next process's events are others
					b.fake.cut(func() {})
					b.after(time.Second)
					require.True(t, isNew(rank))
					b.fake.set(up)
					b.after(time.Second)
				}
			})
		})
	}
}
