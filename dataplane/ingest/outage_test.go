package ingest_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/ingest"
)

// lose has a rank lose a message, so that only a replay makes it exact again.
func (w *world) lose(i int) {
	w.pubs[0].publish(false, store(b, i%8, i%8+1))
	w.pubs[0].publish(true, store(c, i%8, i%8+1))
	synctest.Wait()
}

// TestWellAgain: however long and in whatever way a rank's replays have failed, the rank is exact
// within seconds when they work again, without a message or a new connection that would tell. While
// they fail they are few.
func TestWellAgain(t *testing.T) {
	ways := map[string]fault{"no answer": silent, "no listener": refused, "half an answer": half, "hung up": hungUp}
	for name, how := range ways {
		for _, lasts := range []time.Duration{30 * time.Second, 10 * time.Minute} {
			for _, busy := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, %v, busy %v", name, lasts, busy), func(t *testing.T) {
					inWorld(t, ingest.Config{}, 1, func(w *world) {
						p := w.pubs[0]
						for i := range 8 {
							p.publish(true, store(a, i, i+1))
						}
						w.up()
						p.with(func() { p.fault = func() fault { return how } })
						w.lose(0)
						began := p.asked()
						for at := time.Duration(0); at < lasts; at += time.Second {
							w.after(time.Second)
							if busy {
								w.lose(int(at / time.Second))
							}
						}
						require.Equal(t, ingest.Degraded, w.stats().State())
						require.Less(t, p.asked()-began, 3+int(lasts/(15*time.Second)), "replays that fail")
						p.with(func() { p.fault = nil })
						w.after(45 * time.Second) // an unanswered replay ends after 20 s
						require.Equal(t, ingest.Live, w.stats().State())
						require.True(t, w.worker.Ranks()[0].Exact())
						require.Equal(t, 8, w.credited(a))
					})
				})
			}
		}
	}
}

// TestHolesAndThenAnOutage: a rank whose replays had holes for long, for which they are asked for
// seldom, is no later exact after an outage.
func TestHolesAndThenAnOutage(t *testing.T) {
	inWorld(t, ingest.Config{}, 1, func(w *world) {
		p, how := w.pubs[0], holed
		p.fault = func() fault { return how }
		for i := range 8 {
			p.publish(true, store(a, i, i+1))
		}
		w.up()
		w.after(20 * time.Minute)
		p.with(func() { how = silent })
		w.lose(0)
		w.after(time.Minute)
		require.Equal(t, ingest.Degraded, w.stats().State())
		p.with(func() { how = whole })
		w.after(45 * time.Second)
		require.True(t, w.worker.Ranks()[0].Exact())
		require.Equal(t, 8, w.credited(a))
	})
}

// TestReachedAtLast: a rank that could not be reached for long is learnt as soon as it can.
func TestReachedAtLast(t *testing.T) {
	inWorld(t, ingest.Config{}, 1, func(w *world) {
		p := w.pubs[0]
		for i := range 8 {
			p.publish(true, store(a, i, i+1))
		}
		p.down, p.fault = errors.New("connection refused"), func() fault { return refused }
		w.up()
		w.after(20 * time.Minute)
		require.Equal(t, ingest.Degraded, w.stats().State())
		p.with(func() { p.down, p.fault = nil, nil })
		w.after(time.Second)
		require.True(t, w.worker.Ranks()[0].Exact())
		require.Equal(t, 8, w.credited(a))
	})
}

// TestTooSlow: a rank that sends its history in more time than a replay may take keeps what comes
// live for longer and longer.
func TestTooSlow(t *testing.T) {
	inWorld(t, ingest.Config{}, 1, func(w *world) {
		p, asked := w.pubs[0], 0
		p.fault = func() fault {
			if asked++; asked%2 == 1 { // a history; a survey reads faster
				return slow
			}
			return whole
		}
		for i := range 100 {
			p.publish(true, store(a, i%8, i%8+1))
		}
		w.up()
		w.after(time.Hour)
		require.Less(t, w.stats().Resyncs.Load(), uint64(20))
		require.Greater(t, w.stats().Resyncs.Load(), uint64(5))
	})
}
