package ingest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/ingest"
)

// TestReadingDoesNotWaitForAReplay: a lost message and a replay endpoint that
// does not answer take the credit of old blocks at once, and new ones are
// credited soon, however many messages are lost after that.
func TestReadingDoesNotWaitForAReplay(t *testing.T) {
	inWorld(t, ingest.Config{}, 1, func(w *world) {
		p, rank := w.pubs[0], w.worker.Ranks()[0]
		w.up()
		p.publish(true, store(a, 0, 8))
		synctest.Wait()
		require.True(t, rank.Exact())
		p.with(func() { p.fault = func() fault { return silent } })
		p.publish(false, remove(a, 0, 8))
		p.publish(true, store(b, 0, 4))
		synctest.Wait()
		require.Equal(t, ingest.Unverified, w.stats().State())
		require.False(t, rank.Exact())
		require.Zero(t, w.credited(a), "credited while messages are missing")
		w.after(2 * time.Second)
		require.Equal(t, ingest.Degraded, w.stats().State())
		require.Equal(t, 4, w.credited(b), "what came behind the gap")
		w.wantHeld(0, a, "before the gap")

		p.publish(false, store(a, 0, 1))
		p.publish(true, store(c, 0, 4))
		synctest.Wait()
		require.Equal(t, 4, w.credited(c), "behind another gap, at once")
		asked := p.asked()
		for range 100 { // each loses its neighbor
			w.after(time.Second)
			p.publish(false, store(a, 0, 1))
			p.publish(true, store(b, 0, 4))
			synctest.Wait()
			require.Equal(t, 4, w.credited(b))
		}
		require.LessOrEqual(t, p.asked()-asked, 6, "replays in 100 s that are not answered")
		require.False(t, rank.Exact())

		p.with(func() { p.fault = nil })
		w.after(6 * time.Minute)
		require.True(t, rank.Exact())
		require.Equal(t, 1, w.credited(a))
	})
}

// TestLiveBesideACheck: messages that come while a check waits for its answer
// are applied as they come.
func TestLiveBesideACheck(t *testing.T) {
	inWorld(t, ingest.Config{}, 1, func(w *world) {
		p := w.pubs[0]
		w.up()
		p.publish(true, store(a, 0, 4))
		hold := make(chan struct{})
		p.with(func() { p.hold = hold })
		w.after(5500 * time.Millisecond) // the check is under way
		p.publish(true, store(a, 4, 8))
		synctest.Wait()
		require.Equal(t, 8, w.credited(a))
		p.publish(false, remove(a, 6, 8))
		p.publish(true, store(b, 0, 2))
		synctest.Wait()
		require.Zero(t, w.credited(a), "with a gap")
		p.with(func() { p.hold = nil })
		close(hold)
		w.after(3 * time.Second) // asked again, for that replay ended before the gap
		require.Equal(t, 6, w.credited(a))
		require.Equal(t, 2, w.credited(b))
		require.EqualValues(t, []uint64{1, 1}, []uint64{w.stats().Gaps.Load(), w.stats().Resyncs.Load()}, "gaps, resyncs")
	})
}

// TestUnheardRestart: a lost process loses its credit with the connection, in any state and with
// or without replays.
func TestUnheardRestart(t *testing.T) {
	for name, prepare := range map[string]func(w *world, p *publisher){
		"live":      func(*world, *publisher) {},
		"no replay": func(w *world, _ *publisher) { w.info.Events.Replays = nil },
		"degraded":  func(_ *world, p *publisher) { p.fault = func() fault { return silent } },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, ingest.Config{}, 1, func(w *world) {
				p := w.pubs[0]
				restarts := 0
				w.m = ingest.NewManager(ingest.Config{OnRestart: func(*worker.Rank) { restarts++ }}, w.index, w.net.subscribe, w.net.replay)
				prepare(w, p)
				w.up()
				w.after(time.Minute)
				for i := range 8 {
					p.publish(true, store(a, i, i+1))
				}
				synctest.Wait()
				require.Equal(t, 8, w.credited(a))
				p.with(func() { p.fault = func() fault { return silent } })
				p.restart()
				p.reconnect()
				for range 100 {
					synctest.Wait()
					require.Zero(t, w.credited(a), "blocks of a dead process")
					w.after(100 * time.Millisecond)
				}
				p.publish(true, cleared)
				p.publish(true, store(b, 0, 4))
				synctest.Wait()
				require.Equal(t, 4, w.credited(b), "blocks of the new process")
				require.Zero(t, w.credited(a))
				require.LessOrEqual(t, restarts, 1)
				p.with(func() { p.fault = nil })
				w.after(6 * time.Minute)
				require.Equal(t, name != "no replay", w.worker.Ranks()[0].Exact())
				require.Equal(t, 4, w.credited(b))
			})
		})
	}
}

// TestHoleHeals: a replay that lacks messages is asked for again, and a rank that
// is short because of one is learnt anew when its replay is whole.
func TestHoleHeals(t *testing.T) {
	for _, tt := range []struct {
		name  string
		holes int // replays that have one
		after time.Duration
	}{{"once", 1, 3 * time.Second}, {"twice", 2, 3 * time.Second}, {"a while", 4, 2 * time.Minute}, {"long", 9, 20 * time.Minute}} {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, ingest.Config{}, 1, func(w *world) {
				p, left := w.pubs[0], tt.holes
				for i := range 8 {
					p.publish(true, store(a, i, i+1))
				}
				p.fault = func() fault {
					if left--; left >= 0 {
						return holed
					}
					return whole
				}
				w.up()
				if tt.holes > 3 {
					w.after(5 * time.Second)
					require.False(t, w.worker.Ranks()[0].Exact(), "the rank holds what was lost")
				}
				w.after(tt.after)
				require.Equal(t, 8, w.credited(a))
				require.Equal(t, ingest.Live, w.stats().State())
				require.True(t, w.worker.Ranks()[0].Exact())
				require.True(t, w.stream(0).Complete())

				// A gap with a hole in its replay, too.
				left = tt.holes
				for i := range 7 {
					p.publish(false, store(b, i, i+1))
				}
				p.publish(true, store(b, 7, 8))
				w.after(tt.after)
				require.Equal(t, 8, w.credited(b))
				require.Equal(t, 8, w.credited(a))
			})
		})
	}
}

// TestTooMuchWaits: where live messages that wait for a replay take too much
// memory, the rank is followed without it.
func TestTooMuchWaits(t *testing.T) {
	inWorld(t, ingest.Config{HoldBytes: 2000}, 1, func(w *world) {
		p := w.pubs[0]
		w.up()
		p.publish(true, store(a, 0, 8))
		synctest.Wait()
		p.with(func() { p.fault = func() fault { return silent } })
		p.publish(false, remove(a, 0, 8))
		for range 20 {
			p.publish(true, store(b, 0, 8))
		}
		p.publish(true, store(c, 0, 8))
		synctest.Wait()
		require.Equal(t, ingest.Degraded, w.stats().State())
		require.Equal(t, 8, w.credited(c))
		w.wantHeld(0, a, "before the gap")
		require.Greater(t, w.stats().Lost.Load(), uint64(1))
		p.with(func() { p.fault = nil })
		w.after(time.Minute)
		require.True(t, w.worker.Ranks()[0].Exact())
		require.Equal(t, 8, w.credited(b))
	})
}

func TestLag(t *testing.T) {
	inWorld(t, ingest.Config{}, 1, func(w *world) {
		p := w.pubs[0]
		p.publish(true, store(a, 0, 1))
		w.after(time.Hour)
		w.up()
		require.Zero(t, w.stats().Lag(), "a replayed batch is old, not late")

		hold := make(chan struct{})
		p.with(func() { p.hold = hold })
		p.publish(false, store(a, 1, 2))
		p.publish(true, store(a, 2, 3)) // its gap waits for the end of a replay
		synctest.Wait()
		p.publish(true, store(a, 3, 4))
		w.after(time.Second)
		require.Zero(t, w.stats().Lag(), "lag: nothing came live so far")
		close(hold)
		synctest.Wait()
		w.wantHeld(4, a, "all")
		require.Equal(t, time.Second, w.stats().Lag().Round(time.Millisecond), "lag of a live batch that waited")
	})
}
