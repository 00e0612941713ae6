package queue_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/bubbletest"
	"github.com/warmpath/warmpath/dataplane/routing/queue"
)

// ranks is a cluster of ranks that count their load.
type ranks struct {
	most  int64
	loads []*atomic.Int64
	none  atomic.Bool // all are gone
}

func newRanks(n int, most int64) *ranks {
	r := &ranks{most: most}
	for range n {
		r.loads = append(r.loads, new(atomic.Int64))
	}
	return r
}

func (r *ranks) lanes(dst []queue.Rank, _ string) []queue.Rank {
	if r.none.Load() {
		return dst
	}
	for i, l := range r.loads {
		dst = append(dst, queue.Rank{Key: l, DP: i, Room: int(r.most - l.Load()), Held: int(l.Load())})
	}
	return dst
}

// begin counts a request and tells the gate.
func (r *ranks) begin(g *queue.Gate, p *queue.Permit, rank int) {
	now := r.loads[rank].Add(1)
	p.Dispatched(r.loads[rank])
	if now >= r.most {
		g.Full("m")
	}
}

func (r *ranks) end(g *queue.Gate, rank int) {
	r.loads[rank].Add(-1)
	g.Freed()
}

// fill makes every rank full.
func (r *ranks) fill(g *queue.Gate) {
	for i := range r.loads {
		for range r.most {
			r.begin(g, &queue.Permit{}, i)
		}
	}
}

// entering is a request in the queue.
type entering struct {
	permit queue.Permit
	err    error
	done   chan struct{}
}

func enter(g *queue.Gate, gone <-chan struct{}, w *queue.Waiter) *entering {
	e := &entering{done: make(chan struct{})}
	go func() {
		defer close(e.done)
		e.permit, e.err = g.Enter(gone, "m", w)
	}()
	synctest.Wait()
	return e
}

func (e *entering) waits() bool {
	synctest.Wait()
	select {
	case <-e.done:
		return false
	default:
		return true
	}
}

func anyone() *queue.Waiter { return &queue.Waiter{DP: queue.AnyDP} }

// inGate runs a test in a bubble, with a gate before n ranks that have room for one request each.
func inGate(t *testing.T, n int, cfg queue.Config, test func(t *testing.T, r *ranks, g *queue.Gate)) {
	t.Helper()
	bubbletest.Test(t, func(t *testing.T) {
		r := newRanks(n, 1)
		cfg.Ranks = r.lanes
		g := queue.New(cfg)
		defer g.Close()
		test(t, r, g)
	})
}

func TestGateLetsPassWhileThereIsRoom(t *testing.T) {
	inGate(t, 2, queue.Config{}, func(t *testing.T, r *ranks, g *queue.Gate) {
		r.begin(g, &queue.Permit{}, 0)
		require.False(t, g.Engaged(), "one of two is full")
		r.begin(g, &queue.Permit{}, 1)
		require.True(t, g.Engaged())
		a, b := enter(g, nil, anyone()), enter(g, nil, anyone())
		require.True(t, a.waits() && b.waits())
		other, err := g.Enter(nil, "another model", anyone())
		require.NoError(t, err)
		require.Nil(t, other.Rank(), "the queue of one model is not another's")
		r.end(g, 1)
		require.False(t, a.waits(), "the first one passes")
		require.True(t, b.waits(), "the room is kept for the first one, which has not used it yet")
		require.NoError(t, a.err)
		require.Equal(t, any(r.loads[1]), a.permit.Rank())
		a.permit.Release() // its client left, say
		require.False(t, b.waits(), "what was not used is the next one's")
		r.begin(g, &b.permit, 1)
		b.permit.Release() // after Began it does nothing
		require.ErrorIs(t, enter(g, closedNow(), anyone()).err, queue.ErrGone)
		r.end(g, 0)
		r.end(g, 1)
		time.Sleep(5 * time.Second)
		require.False(t, g.Engaged(), "a second with room is the end of it")
		require.Equal(t, uint64(2), g.Stats().Passed)
	})
}

func closedNow() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

func TestGateWakesPinnedOnlyForTheirRank(t *testing.T) {
	inGate(t, 2, queue.Config{}, func(t *testing.T, r *ranks, g *queue.Gate) {
		r.fill(g)
		pinned, free := enter(g, nil, &queue.Waiter{DP: 0}), enter(g, nil, anyone())
		r.end(g, 1)
		require.True(t, pinned.waits())
		require.False(t, free.waits(), "nobody is in the way of who may use the room")
		r.begin(g, &free.permit, 1)
		r.end(g, 0)
		require.False(t, pinned.waits())
		lost := enter(g, nil, &queue.Waiter{DP: 7})
		require.False(t, lost.waits(), "a rank that does not exist never has room: the router says so")
		pinned.permit.Release()
	})
}

func TestGateForgetsWhoLeaves(t *testing.T) {
	inGate(t, 1, queue.Config{}, func(t *testing.T, r *ranks, g *queue.Gate) {
		r.fill(g)
		gone := make(chan struct{}, 1)
		a := enter(g, gone, anyone())
		gone <- struct{}{}
		require.False(t, a.waits())
		require.ErrorIs(t, a.err, queue.ErrGone)
		require.Zero(t, g.Stats().Waiting)
		require.Equal(t, uint64(1), g.Stats().Gone)
	})
}

func TestGateRefuses(t *testing.T) {
	inGate(t, 1, queue.Config{Max: 2, Timeout: time.Minute}, func(t *testing.T, r *ranks, g *queue.Gate) {
		r.fill(g)
		all := []*entering{enter(g, nil, anyone()), enter(g, nil, anyone())}
		for range 20 { // one passes each half second
			r.end(g, 0)
			first := all[0]
			require.False(t, first.waits())
			require.NoError(t, first.err)
			r.begin(g, &first.permit, 0)
			time.Sleep(500 * time.Millisecond)
			all = append(all[1:], enter(g, nil, anyone()))
		}
		refused := enter(g, nil, anyone())
		var full *queue.RefusedError
		require.ErrorAs(t, refused.err, &full)
		require.Equal(t, queue.ReasonFull, full.Reason)
		require.Equal(t, 2*time.Second, full.RetryAfter, "3 requests at about 2 a second")
		begun := time.Now()
		last := all[1]
		<-last.done
		require.ErrorAs(t, last.err, &full)
		require.Equal(t, queue.ReasonDeadline, full.Reason)
		require.Greater(t, full.RetryAfter, 2*time.Second, "nobody passed for a minute: the rate is lower")
		require.LessOrEqual(t, time.Since(begun), time.Minute)
		st := g.Stats()
		require.Equal(t, uint64(1), st.RefusedFull)
		require.Equal(t, uint64(2), st.RefusedLate)
	})
}

func TestGateTellsTheDisplaced(t *testing.T) {
	inGate(t, 1, queue.Config{Max: 1}, func(t *testing.T, r *ranks, g *queue.Gate) {
		r.fill(g)
		low := enter(g, nil, &queue.Waiter{Priority: queue.NoPriority, DP: queue.AnyDP})
		high := enter(g, nil, &queue.Waiter{Priority: 1, DP: queue.AnyDP})
		require.False(t, low.waits())
		var full *queue.RefusedError
		require.ErrorAs(t, low.err, &full)
		require.Equal(t, queue.ReasonDisplaced, full.Reason)
		require.True(t, high.waits())
		g.Close()
		require.False(t, high.waits())
		require.ErrorIs(t, high.err, queue.ErrClosed)
		after, err := g.Enter(nil, "m", anyone())
		require.NoError(t, err, "a closed gate holds nobody")
		require.Nil(t, after.Rank())
	})
}

func TestGateLetsPassWhenAllRanksAreGone(t *testing.T) {
	inGate(t, 1, queue.Config{}, func(t *testing.T, r *ranks, g *queue.Gate) {
		r.fill(g)
		a := enter(g, nil, anyone())
		r.none.Store(true)
		time.Sleep(time.Second)
		require.False(t, a.waits())
		require.NoError(t, a.err, "the router says why nobody can take it")
		require.Nil(t, a.permit.Rank())
		time.Sleep(5 * time.Second)
		require.False(t, g.Engaged())
	})
}

// TestGateUnderLoad has many goroutines come, go and end at once: no rank ever gets more than
// it takes from those that were counted, and everybody gets an answer.
func TestGateUnderLoad(t *testing.T) {
	r := newRanks(3, 4)
	g := queue.New(queue.Config{Max: 10_000, Ranks: r.lanes})
	defer g.Close()
	r.fill(g) // engaged: from here on every permit is counted
	var wg sync.WaitGroup
	var passed, left, over atomic.Int64
	for i := range 400 {
		wg.Go(func() {
			var gone chan struct{}
			if i%5 == 0 {
				gone = closedNow()
			}
			permit, err := g.Enter(gone, "m", &queue.Waiter{Client: uint64(i % 7), Tokens: i, DP: queue.AnyDP, Branch: branch(16, byte(i%4), byte(i))})
			if err != nil {
				left.Add(1)
				return
			}
			passed.Add(1)
			for rank, l := range r.loads {
				if permit.Rank() == any(l) {
					if l.Add(1) > r.most {
						over.Add(1)
					}
					permit.Dispatched(l)
					r.end(g, rank)
				}
			}
		})
	}
	for rank := range r.loads {
		for range r.most {
			r.end(g, rank)
		}
	}
	wg.Wait()
	require.Equal(t, int64(400), passed.Load()+left.Load())
	require.GreaterOrEqual(t, passed.Load(), int64(320))
	require.Zero(t, over.Load(), "a rank got more than it takes")
	for _, l := range r.loads {
		require.Zero(t, l.Load())
	}
	require.Zero(t, g.Stats().Waiting)
}
