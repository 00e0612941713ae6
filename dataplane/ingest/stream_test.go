package ingest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/ingest"
	"github.com/warmpath/warmpath/zmq"
)

var (
	a = prompt(1, 8)
	b = prompt(2, 8)
	c = prompt(3, 8)
)

func TestReplayThenLive(t *testing.T) {
	inWorld(t, ingest.Config{}, 1, func(w *world) {
		p := w.pubs[0]
		p.publish(true, cleared)
		p.publish(true, store(a, 0, 2))
		p.publish(true, store(a, 2, 4))
		p.hold = make(chan struct{}) // the replay is under way
		w.up()
		require.Equal(t, ingest.Replaying, w.stats().State())
		w.wantHeld(4, a, "what the replay brought so far")
		p.publish(true, store(a, 4, 5))
		p.publish(true, remove(a, 4, 5))
		close(p.hold)
		synctest.Wait()
		w.wantHeld(4, a, "live events that waited for the replay")
		p.publish(true, store(b, 0, 3))
		synctest.Wait()
		w.wantHeld(3, b, "live")

		s := w.stats()
		require.Equal(t, ingest.Live, s.State())
		require.EqualValues(t, []uint64{6, 3, 5, 0, 0, 1}, []uint64{
			s.Batches.Load(), s.Replayed.Load(), s.Sequence.Load(), s.Gaps.Load(), s.Duplicates.Load(), s.Resyncs.Load(),
		}, "batches, replayed, sequence, gaps, duplicates, resyncs")
		require.Equal(t, 7, w.stream(0).Blocks())
		require.True(t, w.stream(0).Complete())
	})
}

// TestLiveAndReplayed: replayed messages may come live as well, and must not count twice.
func TestLiveAndReplayed(t *testing.T) {
	inWorld(t, ingest.Config{}, 1, func(w *world) {
		p := w.pubs[0]
		p.gate = make(chan struct{}) // the rank answers late
		w.up()
		for i := range 3 {
			p.publish(true, store(a, i, i+1))
		}
		close(p.gate)
		synctest.Wait()
		require.EqualValues(t, []uint64{3, 3}, []uint64{w.stats().Replayed.Load(), w.stats().Duplicates.Load()}, "replayed, duplicates")
		w.wantHeld(3, a, "came twice")
		p.publish(true, remove(a, 2, 3))
		synctest.Wait()
		w.wantHeld(2, a, "one removal takes one store away")
		require.Zero(t, w.stats().UnknownRemovals.Load())

		gate := make(chan struct{})
		p.with(func() { p.gate = gate })
		p.publish(false, store(b, 0, 1))
		for i := 1; i < 4; i++ {
			p.publish(true, store(b, i, i+1))
		}
		close(gate)
		synctest.Wait()
		w.wantHeld(4, b, "a gap and what came behind it while it was filled")
		p.publish(true, remove(b, 1, 4))
		synctest.Wait()
		w.wantHeld(1, b, "one removal takes one store away")
		require.EqualValues(t, []uint64{1, 6, 0}, []uint64{
			w.stats().Gaps.Load(), w.stats().Duplicates.Load(), w.stats().Lost.Load(),
		}, "gaps, duplicates, lost")
	})
}

func TestJoins(t *testing.T) {
	tests := []struct {
		name     string
		keep     int
		noReplay bool
		broken   bool
		state    ingest.State
		before   int // blocks of a, stored before
		live     int // blocks of b, stored after
		complete bool
	}{
		{"with all of its history", 0, false, false, ingest.Live, 8, 2, true},
		{"with a part of its history", 2, false, false, ingest.Live, 0, 2, false},
		{"without replay", 0, true, false, ingest.Degraded, 0, 2, false},
		{"without an answer", 0, false, true, ingest.Degraded, 0, 2, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, ingest.Config{}, 1, func(w *world) {
				p := w.pubs[0]
				p.keep, p.broken = tt.keep, tt.broken
				if tt.noReplay {
					w.info.Events.Replays = nil
				}
				for i := range 8 {
					p.publish(true, store(a, i, i+1))
				}
				w.up()
				w.after(25 * time.Second) // longer than a replay may take
				p.publish(true, store(b, 0, 1))
				p.publish(true, store(b, 1, 2))
				synctest.Wait()
				require.Equal(t, tt.state.String(), w.stats().State().String())
				w.wantHeld(tt.before, a, "stored before")
				w.wantHeld(tt.live, b, "stored live")
				require.Equal(t, tt.complete, w.stream(0).Complete(), "complete")
				require.Zero(t, w.stats().Gaps.Load(), "to join late is no gap")
			})
		})
	}
}

// TestHistoryComesLater: a failed replay is asked for again, without dropping live content.
func TestHistoryComesLater(t *testing.T) {
	inWorld(t, ingest.Config{}, 1, func(w *world) {
		p := w.pubs[0]
		p.broken = true
		p.publish(true, store(a, 0, 8))
		w.up()
		w.after(25 * time.Second)
		p.publish(true, store(b, 0, 4))
		w.after(time.Minute)
		require.Equal(t, ingest.Degraded, w.stats().State())
		w.wantHeld(4, b, "learned meanwhile")
		replays := p.asked()
		w.after(time.Hour)
		require.Less(t, p.asked()-replays, 100, "replays asked for in an hour without an answer: a connection each")
		w.wantHeld(4, b, "learned meanwhile, an hour later")

		p.with(func() { p.broken = false })
		w.after(time.Minute)
		require.Equal(t, ingest.Live, w.stats().State())
		w.wantHeld(8, a, "stored before")
		w.wantHeld(4, b, "learned meanwhile and again")
	})
}

func TestGaps(t *testing.T) {
	tests := []struct {
		name       string
		keep       int
		noReplay   bool
		broken     bool
		a, c       int // blocks left, of a before the gap and c in it
		lost       uint64
		state      ingest.State
		restarts   uint64
		duplicates uint64
	}{
		{"filled", 0, false, false, 7, 8, 0, ingest.Live, 0, 0},
		{"filled by the last messages kept", 4, false, false, 7, 8, 0, ingest.Live, 0, 0},
		{"not kept", 3, false, false, 0, 8, 2, ingest.Live, 0, 0}, // its store was kept, its neighbours were not
		{"not kept at all", 1, false, false, 0, 0, 2, ingest.Live, 0, 0},
		{"no replay", 0, true, false, 0, 0, 2, ingest.Degraded, 0, 0},
		{"no answer", 0, false, true, 0, 0, 2, ingest.Degraded, 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, ingest.Config{}, 1, func(w *world) {
				p := w.pubs[0]
				p.keep = tt.keep
				if tt.noReplay {
					w.info.Events.Replays = nil
				}
				w.up()
				p.publish(true, store(a, 0, 8))
				synctest.Wait()
				p.with(func() { p.broken = tt.broken })
				p.publish(false, remove(a, 7, 8))
				p.publish(false, store(c, 0, 8))
				p.publish(true, store(b, 0, 8))
				w.after(30 * time.Second)
				w.wantHeld(tt.a, a, "stored before the gap")
				w.wantHeld(tt.c, c, "stored in the gap")
				w.wantHeld(8, b, "stored behind the gap")
				s := w.stats()
				require.EqualValues(t, 1, s.Gaps.Load(), "gaps")
				require.Equal(t, tt.lost, s.Lost.Load(), "lost")
				require.Equal(t, tt.state.String(), s.State().String())
				require.Equal(t, tt.restarts, s.Restarts.Load(), "restarts")

				p.publish(true, remove(b, 4, 8))
				w.after(3 * time.Second) // a replay may be tried again just now
				w.wantHeld(4, b, "it goes on")
			})
		})
	}
}

// TestHoleInReplay: a number that is missing for good makes all blocks before it worthless, in a
// resync as in a gap.
func TestHoleInReplay(t *testing.T) {
	inWorld(t, ingest.Config{}, 1, func(w *world) {
		p := w.pubs[0]
		p.publish(true, store(a, 0, 8))
		p.with(func() { p.seq++ }) // lost: perhaps a's removal
		p.publish(true, store(b, 0, 8))
		w.up()
		w.after(3 * time.Second)
		require.Equal(t, 3, p.asked(), "replays: one and two more for the hole")
		w.wantHeld(0, a, "before the hole")
		w.wantHeld(8, b, "behind the hole")
		require.EqualValues(t, 1, w.stats().Lost.Load())
		require.False(t, w.stream(0).Complete())

		p.with(func() { p.seq++ })
		p.publish(true, store(c, 0, 8))
		w.after(5 * time.Second)
		w.wantHeld(0, b, "before the second hole")
		w.wantHeld(8, c, "behind the second hole")
		p.publish(true, remove(c, 2, 8))
		synctest.Wait()
		w.wantHeld(2, c, "it goes on")
		require.EqualValues(t, 1, w.stats().Gaps.Load())
	})
}

func TestRestarts(t *testing.T) {
	tests := []struct {
		name     string
		noReplay bool
		drop     int // first messages of the new process that do not come
		publish  int // by the new process
		c        int // blocks that the new process stored, as far as they can be known
	}{
		{"seen at its first message", false, 0, 1, 1},
		{"seen at a later message", false, 2, 3, 3},
		{"ahead of the old process", false, 7, 8, 8},
		{"never seen: the check finds it", false, 3, 3, 3},
		{"without replay", true, 0, 3, 3},
		{"without replay, seen at a later message", true, 2, 3, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, ingest.Config{}, 1, func(w *world) {
				if tt.noReplay {
					w.info.Events.Replays = nil
				}
				p := w.pubs[0]
				w.up()
				for i := range 4 {
					p.publish(true, store(a, i, i+1))
				}
				synctest.Wait()
				w.wantHeld(4, a, "before the restart")
				p.restart()
				for i := range tt.publish {
					p.publish(i >= tt.drop, store(c, i, i+1))
				}
				w.after(time.Minute)
				w.wantHeld(0, a, "stored by the old process")
				w.wantHeld(tt.c, c, "stored by the new process")
				require.Positive(t, w.stats().Restarts.Load())
			})
		})
	}
}

// TestRestartBeforeTheFirstLiveMessage: the numbers of the new process look
// like messages that the replay has brought already.
func TestRestartBeforeTheFirstLiveMessage(t *testing.T) {
	inWorld(t, ingest.Config{TailCheck: time.Hour}, 1, func(w *world) {
		p := w.pubs[0]
		for i := range 4 {
			p.publish(true, store(a, i, i+1))
		}
		w.up()
		p.restart()
		for i := range 4 {
			p.publish(true, store(c, i, i+1))
		}
		synctest.Wait()
		w.wantHeld(0, a, "stored by the old process")
		w.wantHeld(4, c, "stored by the new process")
	})
}

// TestOverflow: while a replay runs the socket is not read, and a rank drops messages that its
// queue has no room for.
func TestOverflow(t *testing.T) {
	inWorld(t, ingest.Config{}, 1, func(w *world) {
		p := w.pubs[0]
		p.hwm = 2
		p.publish(true, store(a, 0, 1))
		p.hold = make(chan struct{})
		w.up()
		for i := 1; i < 8; i++ {
			p.publish(true, store(a, i, i+1))
		}
		close(p.hold)
		synctest.Wait()
		require.Equal(t, 5, p.dropped)
		w.wantHeld(3, a, "what found room in the queue")
		p.publish(true, store(b, 0, 8))
		synctest.Wait()
		w.wantHeld(8, a, "the rest, replayed at the next message")
		w.wantHeld(8, b, "the next message")
		require.EqualValues(t, 1, w.stats().Gaps.Load())
		require.Zero(t, w.stats().Lost.Load())
	})
}

func TestTailCheck(t *testing.T) {
	inWorld(t, ingest.Config{TailCheck: 5 * time.Second}, 1, func(w *world) {
		p := w.pubs[0]
		w.up()
		p.publish(true, store(a, 0, 4))
		synctest.Wait()
		p.publish(false, remove(a, 2, 4)) // and nothing follows
		synctest.Wait()
		w.wantHeld(4, a, "nobody can know yet")
		w.after(5*time.Second - time.Millisecond)
		w.wantHeld(4, a, "before the check")
		w.after(time.Millisecond)
		w.wantHeld(2, a, "found by asking")
		require.EqualValues(t, 1, w.stats().Gaps.Load())

		// However the last message before it and the ticks meet, it takes no longer.
		for i := range 20 {
			w.after(time.Duration(731*i%5000) * time.Millisecond)
			p.publish(true, store(b, 0, 4))
			w.after(time.Duration(337*i%4000) * time.Millisecond)
			p.publish(false, remove(b, 1, 4))
			w.after(5 * time.Second)
			w.wantHeld(1, b, "found by asking")
			p.publish(true, remove(b, 0, 1))
		}

		// The first check finds messages that were dropped right after the start.
		w.m.Down(w.worker)
		w.up()
		p.publish(false, remove(a, 1, 2))
		w.after(5 * time.Second)
		w.wantHeld(1, a, "found by asking, after the start")
	})
}

// TestTailCheckLeavesBusyStreamsAlone: their next message shows a gap by
// itself, and a replay costs the engine time.
func TestTailCheckLeavesBusyStreamsAlone(t *testing.T) {
	inWorld(t, ingest.Config{TailCheck: 5 * time.Second}, 1, func(w *world) {
		w.up()
		p := w.pubs[0]
		for range 60 {
			p.publish(true, store(a, 0, 1), remove(a, 0, 1))
			w.after(time.Second)
		}
		require.Equal(t, 1, p.asked(), "replays: the first one, and no checks")
		w.after(time.Minute)
		require.Greater(t, p.asked(), 5, "replays of a quiet stream")
		require.Zero(t, w.stats().Gaps.Load())
	})
}

// TestTailCheckOutlivesSilence: a replay endpoint that stops answering must neither cost content
// nor hold up live events for long.
func TestTailCheckOutlivesSilence(t *testing.T) {
	inWorld(t, ingest.Config{}, 1, func(w *world) {
		p := w.pubs[0]
		w.up()
		p.publish(true, store(a, 0, 4))
		p.with(func() { p.broken = true })
		w.after(time.Minute)
		w.wantHeld(4, a, "kept")
		require.Equal(t, ingest.Unverified, w.stats().State())
		require.False(t, w.worker.Ranks()[0].Exact())
		p.publish(true, store(b, 0, 4))
		synctest.Wait()
		w.wantHeld(4, b, "a live event behind a check without an answer")
		require.Equal(t, ingest.Live, w.stats().State(), "the next number on the same connection is a proof")
	})
}

// TestAMessageTwice: a message that comes again, as of a publisher that connects anew, is no sign of
// another process; one with its number and other bytes is.
func TestAMessageTwice(t *testing.T) {
	for name, replays := range map[string]bool{"with replays": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, ingest.Config{}, 1, func(w *world) {
				if !replays {
					w.info.Events.Replays = nil
				}
				w.up()
				p := w.pubs[0]
				for i := range 4 {
					p.publish(true, store(a, i, i+1))
					w.after(time.Millisecond)
				}
				p.with(func() {
					again := append([]zmq.Message{p.kept[3]}, p.kept[1:]...) // the last one, then the last three
					for _, s := range p.subs {
						for _, msg := range again {
							p.put(s, msg.Clone())
						}
					}
				})
				w.after(time.Millisecond)
				w.wantHeld(4, a, "after messages that came twice")
				require.EqualValues(t, 4, w.stats().Duplicates.Load())
				require.Zero(t, w.stats().Restarts.Load())
				p.with(func() { p.seq = 3 })
				p.publish(true, store(b, 0, 4)) // another process's fourth message
				w.after(time.Millisecond)
				require.Positive(t, w.stats().Restarts.Load())
			})
		})
	}
}

// TestConnectionLostForGood: a rank without replays that loses its events with the connection is known
// by its answers as soon as its process could have been found out to be another one.
func TestConnectionLostForGood(t *testing.T) {
	inWorld(t, ingest.Config{}, 1, func(w *world) {
		w.info.Events.Replays = nil
		w.up()
		w.pubs[0].publish(true, store(a, 0, 4))
		w.after(time.Millisecond)
		w.pubs[0].reconnect()
		synctest.Wait()
		require.Equal(t, worker.DoubtProcess, w.worker.Ranks()[0].Doubt())
		w.after(10 * time.Second)
		require.Equal(t, worker.NoDoubt, w.worker.Ranks()[0].Doubt())
		w.wantHeld(0, a, "its blocks may be gone")
	})
}
