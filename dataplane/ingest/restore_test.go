package ingest_test

import (
	"bytes"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/ingest"
	"github.com/warmpath/warmpath/radix"
	"github.com/warmpath/warmpath/zmq/kvevent"
)

// save is a snapshot of what the manager knows.
func (w *world) save() []byte {
	w.t.Helper()
	var out bytes.Buffer
	s, err := radix.NewSnapshotWriter(w.index, &out)
	require.NoError(w.t, err)
	require.NoError(w.t, w.m.Save(s))
	_, err = s.Close()
	require.NoError(w.t, err)
	return out.Bytes()
}

// resume is a new router that loads a snapshot; the one before is gone.
func (w *world) resume(data []byte) (ranks int) {
	w.t.Helper()
	w.m.Down(w.worker)
	index, workers, err := radix.LoadSnapshot(bytes.NewReader(data), radix.Config{})
	require.NoError(w.t, err)
	w.index = index
	w.m = ingest.NewManager(ingest.Config{Log: slog.New(slog.DiscardHandler)}, index, w.net.subscribe, w.net.replay)
	return w.m.Restore(workers)
}

// inResumed runs a test where a rank has told of the 8 blocks of a in 8
// messages, and meanwhile happens between two routers. What the second one
// knows before the rank answers it is asked in early.
func inResumed(t *testing.T, meanwhile func(w *world, p *publisher), early, late func(w *world, p *publisher)) {
	t.Helper()
	inWorld(t, ingest.Config{}, 1, func(w *world) {
		p := w.pubs[0]
		w.up()
		for i := range 8 {
			p.publish(true, store(a, i, i+1))
		}
		synctest.Wait()
		data := w.save()
		w.m.Down(w.worker)
		meanwhile(w, p)
		require.Equal(t, 1, w.resume(data), "ranks restored")
		gate := make(chan struct{})
		p.with(func() { p.gate = gate })
		w.up()
		early(w, p)
		close(gate)
		p.with(func() { p.gate = nil })
		synctest.Wait()
		late(w, p)
	})
}

// atOnce is what a router knows before any worker has answered it.
func atOnce(w *world, _ *publisher) {
	w.t.Helper()
	w.wantHeld(8, a, "restored")
	require.Equal(w.t, "restored", w.stats().State().String())
	require.False(w.t, w.worker.Ranks()[0].Exact(), "exact before anything has proved it")
	require.Equal(w.t, []ingest.Shape{{Model: model, BlockSize: page}}, w.m.View().Shapes)
}

func TestRestore(t *testing.T) {
	tests := []struct {
		name      string
		meanwhile func(w *world, p *publisher)
		a, b      int // blocks held in the end
		restarts  uint64
		resyncs   uint64
		complete  bool
	}{
		{"nothing happened", func(*world, *publisher) {}, 8, 0, 0, 0, true},
		{"the rank went on", func(_ *world, p *publisher) {
			p.publish(false, store(b, 0, 3))
			p.publish(false, remove(a, 5, 8))
			p.publish(false, store(b, 3, 4))
		}, 5, 4, 0, 0, true},
		{"the rank dropped all", func(_ *world, p *publisher) {
			p.publish(false, cleared)
			p.publish(false, store(b, 0, 2))
		}, 0, 2, 0, 0, true},
		{"its buffer just holds what is needed", func(_ *world, p *publisher) {
			p.keep = 3
			p.publish(false, store(b, 0, 3))
			p.publish(false, remove(a, 5, 8))
		}, 5, 3, 0, 0, true},
		{"its buffer lacks a message", func(_ *world, p *publisher) {
			p.keep = 3
			p.publish(false, remove(a, 5, 8))
			p.publish(false, store(b, 0, 3))
			p.publish(false, store(b, 3, 4))
			p.publish(false, store(b, 4, 5))
		}, 0, 5, 0, 1, false},
		{"restarted, and silent since", func(_ *world, p *publisher) { p.restart() }, 0, 0, 1, 1, true},
		{"restarted, and behind", func(_ *world, p *publisher) {
			p.restart()
			p.publish(false, store(b, 0, 2))
		}, 0, 2, 1, 1, true},
		{"restarted, and as far", func(_ *world, p *publisher) {
			p.restart()
			time.Sleep(time.Second) // the bubble's
			for i := range 8 {
				p.publish(false, store(b, i, i+1))
			}
		}, 0, 8, 1, 1, true},
		{"restarted, with the same prompts, and ahead", func(_ *world, p *publisher) {
			p.restart()
			time.Sleep(time.Second) // the bubble's
			for i := range 8 {
				p.publish(false, store(a, i, i+1))
			}
			p.publish(false, remove(a, 6, 8))
		}, 6, 0, 1, 1, true},
		{"restarted, and its first messages are gone", func(_ *world, p *publisher) {
			p.restart()
			p.keep = 2
			for i := range 8 {
				p.publish(false, store(b, i, i+1))
			}
			p.publish(false, store(c, 0, 1))
			p.publish(false, store(c, 1, 2))
		}, 0, 0, 0, 1, false},
	}
	other := prompt(4, 8)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inResumed(t, tt.meanwhile, atOnce, func(w *world, p *publisher) {
				w.wantHeld(tt.a, a, "of the snapshot")
				w.wantHeld(tt.b, b, "stored meanwhile")
				s := w.stats()
				require.Equal(t, "live", s.State().String())
				require.Equal(t, []uint64{tt.restarts, tt.resyncs}, []uint64{s.Restarts.Load(), s.Resyncs.Load()}, "restarts, resyncs")
				require.Equal(t, tt.complete, w.stream(0).Complete(), "complete")
				p.publish(true, store(other, 0, 1))
				p.publish(true, store(other, 1, 8), remove(other, 5, 8))
				synctest.Wait()
				w.wantHeld(5, other, "it goes on")
				require.Zero(t, s.Gaps.Load(), "gaps")
			})
		})
	}
}

// TestRestoreKnowsMoreThanReplay: what the rank stored before the messages that
// it still keeps is known by a snapshot alone.
func TestRestoreKnowsMoreThanReplay(t *testing.T) {
	inWorld(t, ingest.Config{}, 1, func(w *world) {
		p := w.pubs[0]
		p.keep = 4
		w.up()
		p.publish(true, store(a, 0, 8))
		for i := range 8 {
			p.publish(true, store(b, i, i+1))
		}
		synctest.Wait()
		data := w.save()
		p.publish(false, store(b, 7, 8))

		w.m.Down(w.worker)
		w.up()
		w.wantHeld(0, a, "without a snapshot")
		w.wantHeld(0, b, "without a snapshot: its first block is not in the buffer")

		require.Equal(t, 1, w.resume(data))
		w.up()
		w.wantHeld(8, a, "stored before what the buffer holds")
		w.wantHeld(8, b, "stored before what the buffer holds, and after")
		require.True(t, w.stream(0).Complete())
	})
}

// TestRestoredMeetsLive: messages that come while the replay runs count once.
func TestRestoredMeetsLive(t *testing.T) {
	inResumed(t, func(_ *world, p *publisher) { p.publish(false, store(b, 0, 2)) }, func(_ *world, p *publisher) {
		p.publish(true, store(b, 2, 4))
	}, func(w *world, p *publisher) {
		p.publish(true, remove(b, 3, 4))
		synctest.Wait()
		w.wantHeld(8, a, "restored")
		w.wantHeld(3, b, "replayed and live")
		require.EqualValues(t, []uint64{2, 1, 0}, []uint64{
			w.stats().Replayed.Load(), w.stats().Duplicates.Load(), w.stats().UnknownRemovals.Load(),
		}, "replayed, duplicates, unknown removals")
	})
}

// TestRestoredWithoutAnswer: what is restored serves while the rank is silent,
// is forgotten when it speaks without a proof, and is kept when the proof comes.
func TestRestoredWithoutAnswer(t *testing.T) {
	for _, speaks := range []bool{false, true} {
		inResumed(t, func(_ *world, p *publisher) {
			p.broken = true
			p.publish(false, store(b, 0, 2))
		}, atOnce, func(w *world, p *publisher) {
			w.after(25 * time.Second)
			atOnce(w, p)
			if speaks {
				p.publish(true, store(b, 2, 4), store(c, 0, 1))
				w.after(3 * time.Second)
				w.wantHeld(0, a, "not proven")
				w.wantHeld(1, c, "live")
				require.Equal(t, ingest.Degraded, w.stats().State())
			}
			p.with(func() { p.broken = false })
			w.after(10 * time.Minute)
			require.Equal(t, ingest.Live, w.stats().State())
			w.wantHeld(8, a, "restored or replayed")
			require.EqualValues(t, speaks, w.stats().Resyncs.Load() > 0, "resyncs")
		})
	}
}

// TestRestoreLeavesOut: what cannot be believed, or asked about, is not taken over.
func TestRestoreLeavesOut(t *testing.T) {
	tests := map[string]func(w *world){
		"another model":  func(w *world) { w.info.Models = []string{"other"} },
		"no replay":      func(w *world) { w.info.Events.Replays = nil },
		"came up late":   func(w *world) { w.after(11 * time.Minute); w.save() },
		"events are off": func(w *world) { w.info.Events = nil },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			inWorld(t, ingest.Config{}, 1, func(w *world) {
				w.up()
				w.pubs[0].publish(true, store(a, 0, 8))
				synctest.Wait()
				require.Equal(t, 1, w.resume(w.save()))
				change(w)
				w.pubs[0].gate = make(chan struct{})
				w.up()
				w.wantHeld(0, a, "of a rank that is not as it was")
				close(w.pubs[0].gate)
				synctest.Wait()
				w.after(11 * time.Minute)
				w.save() // forgets whom nobody claimed
			})
		})
	}
}

// TestSaveBeforeUp: a router that stops before its workers have come up hands on what it was given.
func TestSaveBeforeUp(t *testing.T) {
	inWorld(t, ingest.Config{}, 2, func(w *world) {
		w.up()
		send := func(group int, ev kvevent.Event) {
			ev.Group, ev.HasGroup = group, true
			w.pubs[1].send(true, kvevent.Append(nil, &kvevent.Batch{Events: []kvevent.Event{ev}}, kvevent.VLLM032))
		}
		send(0, store(a, 0, 8))
		send(1, store(a, 0, 8))
		send(1, remove(a, 3, 4))
		w.pubs[0].publish(true, store(b, 0, 8))
		synctest.Wait()
		data := w.save()
		for range 3 {
			require.Equal(t, 2, w.resume(data))
			data = w.save()
		}
		w.up()
		require.Len(t, w.worker.Ranks()[1].IndexIDs(), 2, "KV groups")
		require.Equal(t, 3, w.held(1, radix.DomainKey{}, a), "what both groups hold")
		require.Equal(t, 8, w.held(0, radix.DomainKey{}, b))
		require.EqualValues(t, 0, w.stream(1).Stats.Resyncs.Load())
	})
}

// TestRestoreRefusesNonsense: workers of a snapshot that do not say who they are leave nothing behind.
func TestRestoreRefusesNonsense(t *testing.T) {
	inWorld(t, ingest.Config{}, 1, func(w *world) {
		one := func(meta string) radix.Restored {
			return radix.Restored{Worker: w.index.AddWorker(), Meta: []byte(meta)}
		}
		const good = `{"Rank":"r","Group":0,"At":{"Next":5,"Last":7}}`
		require.Equal(t, 1, w.m.Restore([]radix.Restored{
			one(good), one(""), one("{"), one("{}"), one(good), one(`{"Rank":"r","Group":1,"At":{"Next":6,"Last":7}}`),
		}))
		require.Equal(t, 1, w.index.Stats().Workers)
		w.after(11 * time.Minute)
		w.save()
		require.Zero(t, w.index.Stats().Workers)
	})
}

// TestSavedPositionIsThatOfTheContent: however a snapshot meets the stream, it has just the messages before its position.
func TestSavedPositionIsThatOfTheContent(t *testing.T) {
	long := prompt(9, 300)
	inWorld(t, ingest.Config{}, 1, func(w *world) {
		w.up()
		done := make(chan struct{})
		go func() {
			defer close(done)
			for i := range 300 {
				w.pubs[0].publish(true, store(long, i, i+1))
			}
		}()
		var saves [][]byte
		for running := true; running; {
			select {
			case <-done:
				running = false
			default:
			}
			saves = append(saves, w.save())
		}
		synctest.Wait()
		middle := 0
		for _, data := range saves {
			x, workers, err := radix.LoadSnapshot(bytes.NewReader(data), radix.Config{})
			require.NoError(t, err)
			for _, one := range workers {
				next, blocks := ingest.SavedNext(one.Meta), x.Blocks(one.Worker)
				require.EqualValues(t, next, blocks, "blocks of as many messages")
				if next > 0 && next < 300 {
					middle++
				}
			}
		}
		t.Logf("%d snapshots, %d beside messages", len(saves), middle)
	})
}
