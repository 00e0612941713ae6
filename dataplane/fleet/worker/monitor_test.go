package worker_test

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/bubbletest"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

// step is a change of the worker's behaviour, and the expected state after some time.
type step struct {
	mode  mode
	after time.Duration
	state worker.State
	calls string // u: Up, d: Down; all so far
}

// Delays are bounds that the design promises: probes every 250 ms, given up
// after 500 ms.
const (
	probed   = 300 * time.Millisecond // a probe has begun and was answered
	timedOut = 900 * time.Millisecond // a probe has begun and was given up
)

func TestMonitor(t *testing.T) {
	tests := []struct {
		name  string
		steps []step
	}{
		{"ready at once", []step{{up, 0, worker.Ready, "u"}}},
		{"starts", []step{{refusing, probed, worker.Dead, ""}, {starting, probed, worker.Probing, ""}, {up, probed, worker.Ready, "u"}}},
		{"stays ready", []step{{up, 0, worker.Ready, "u"}, {up, 5 * time.Minute, worker.Ready, "u"}}},
		{"is asked to wait, cache and all", []step{
			{up, 0, worker.Ready, "u"}, {starting, probed, worker.Probing, "u"}, {up, probed, worker.Ready, "u"},
		}},
		{"dies and returns", []step{
			{up, 0, worker.Ready, "u"},
			{refusing, probed, worker.Dead, "ud"},
			{refusing, 5 * time.Minute, worker.Dead, "ud"},
			{up, probed, worker.Ready, "udu"},
		}},
		{"resets connections", []step{{up, 0, worker.Ready, "u"}, {cutting, probed, worker.Dead, "ud"}, {up, probed, worker.Ready, "udu"}}},
		{"hangs and goes on, cache and all", []step{
			{up, 0, worker.Ready, "u"},
			{hanging, timedOut, worker.Slow, "u"},
			{hanging, 5 * time.Minute, worker.Slow, "u"},
			{up, probed, worker.Ready, "u"},
		}},
		{"hangs and dies", []step{
			{up, 0, worker.Ready, "u"},
			{hanging, timedOut, worker.Slow, "u"},
			{refusing, probed, worker.Dead, "ud"},
			{hanging, timedOut, worker.Slow, "ud"},
			{up, probed, worker.Ready, "udu"},
		}},
		{"hangs before it was ever ready", []step{{hanging, timedOut, worker.Slow, ""}, {up, probed, worker.Ready, "u"}}},
		{"the router runs out of file descriptors", []step{
			{starving, probed, worker.Slow, ""}, {up, probed, worker.Ready, "u"},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			first := func(f *fake) { f.mode = tt.steps[0].mode }
			watch(t, first, func(b *bench) {
				for i, s := range tt.steps {
					b.fake.set(s.mode)
					b.after(s.after)
					var calls []string
					for _, c := range s.calls {
						calls = append(calls, map[rune]string{'u': "up", 'd': "down"}[c])
					}
					t.Logf("step %d", i)
					b.want(s.state, calls...)
				}
				require.LessOrEqual(t, b.fake.most, 2, "connections at a time: one of probes, one that asks for load")
			})
		})
	}
}

func TestShortageOfTheRouterKeepsTheCache(t *testing.T) {
	watch(t, nil, func(b *bench) {
		b.after(0)
		b.want(worker.Ready, "up")
		// The kept connection goes, and no new one can be had.
		b.fake.set(cutting)
		b.fake.set(starving)
		b.after(time.Minute)
		b.want(worker.Ready, "up") // the kept connection still serves
	})
}

func TestReadinessPaths(t *testing.T) {
	watch(t, func(f *fake) { delete(f.answers, "/ready") }, func(b *bench) {
		b.after(time.Second)
		b.want(worker.Ready, "up")
		require.Equal(t, 1, b.fake.got("/ready"), "probes of a path that is not there")
		require.Greater(t, b.fake.got("/v1/models"), 3, "probes of the other path")

		// The worker comes back as a release that has the path: its /v1/models
		// may answer before it is ready.
		b.fake.set(refusing)
		b.after(probed)
		b.want(worker.Dead, "up", "down")
		b.fake.with(func() { b.fake.answers["/ready"] = ""; b.fake.statuses["/ready"] = 503 })
		b.fake.set(up)
		b.after(probed)
		b.want(worker.Probing, "up", "down")
	})
}

func TestNeitherReadinessPath(t *testing.T) {
	watch(t, func(f *fake) { clear(f.answers) }, func(b *bench) {
		b.after(probed)
		b.want(worker.Probing)
		require.Contains(t, b.worker.LastError(), "404")
	})
}

func TestDiscovery(t *testing.T) {
	tests := []struct {
		name    string
		prepare func(f *fake)
		want    *worker.Info // nil: not ready
		err     string
	}{
		{"both", func(*fake) {}, &worker.Info{Version: "0.5.23", Models: []string{"tiny"}, PageSize: 16, DPSize: 1}, ""},
		{"old paths", func(f *fake) {
			delete(f.answers, "/server_info")
			f.answers["/get_server_info"] = `{"version":"0.5.8","dp_size":3}`
		}, &worker.Info{Version: "0.5.8", Models: []string{"tiny"}, DPSize: 3}, ""},
		{"no description", func(f *fake) { delete(f.answers, "/server_info") }, &worker.Info{Engine: "an unknown server", Models: []string{"tiny"}, DPSize: 1}, ""},
		{"no list of models", func(f *fake) {
			delete(f.answers, "/v1/models")
			f.answers["/server_info"] = `{"served_model_name":"named"}`
		}, &worker.Info{Models: []string{"named"}, DPSize: 1}, ""},
		{"list of models that cannot be read", func(f *fake) {
			f.answers["/v1/models"], f.answers["/server_info"] = `<html>`, `{"served_model_name":"named"}`
		}, &worker.Info{Models: []string{"named"}, DPSize: 1}, ""},
		{"description that cannot be read", func(f *fake) { f.answers["/server_info"] = `<html>` }, nil, "cannot read server_info"},
		{"description fails", func(f *fake) { f.statuses["/server_info"] = 500 }, nil, "/server_info answered 500"},
		{"list of models fails", func(f *fake) { f.statuses["/v1/models"] = 502 }, nil, "/v1/models answered 502"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			watch(t, tt.prepare, func(b *bench) {
				b.after(probed)
				if tt.want == nil {
					b.want(worker.Probing)
					require.Nil(t, b.worker.Info())
					require.Contains(t, b.worker.LastError(), tt.err)
					return
				}
				b.want(worker.Ready, "up")
				require.Equal(t, tt.want, b.worker.Info())
				require.Same(t, b.worker.Info(), b.calls.infos[0], "info that the observer got")
			})
		})
	}
}

// TestDiscoveryFailsOnce: the first answer of a busy worker must not become its description.
func TestDiscoveryFailsOnce(t *testing.T) {
	watch(t, func(f *fake) { f.statuses["/server_info"] = 500 }, func(b *bench) {
		b.after(probed)
		b.want(worker.Probing)
		b.fake.with(func() { delete(b.fake.statuses, "/server_info") })
		b.after(probed)
		b.want(worker.Ready, "up")
		require.Equal(t, 16, b.worker.Info().PageSize)
		require.Empty(t, b.worker.LastError())
	})
}

func TestRanksFollowTheDescription(t *testing.T) {
	prepare := func(f *fake) { f.answers["/server_info"] = `{"dp_size":3}` }
	watch(t, prepare, func(b *bench) {
		require.Len(t, b.worker.Ranks(), 1, "ranks before the first answer")
		b.after(0)
		ranks := b.worker.Ranks()
		require.Len(t, ranks, 3)
		require.Equal(t, ranks, b.registry.Snapshot().Ranks, "ranks of the snapshot")
		for i, r := range ranks {
			require.Equal(t, i, r.DPRank)
			require.Equal(t, fakeURL+"#"+string(rune('0'+i)), r.ID())
			require.Same(t, b.worker, r.Worker)
		}

		// Back with one rank: requests on the old ones keep counting there.
		lease := ranks[1].Load.Begin(10)
		b.fake.with(func() { b.fake.answers["/server_info"] = `{}` })
		b.fake.set(refusing)
		b.after(probed)
		require.Equal(t, ranks, b.worker.Ranks(), "ranks of a dead worker")
		b.fake.set(up)
		b.after(probed)
		b.want(worker.Ready, "up", "down", "up")
		require.Len(t, b.registry.Snapshot().Ranks, 1)
		require.Equal(t, fakeURL, b.worker.Ranks()[0].ID())
		lease.End()
		require.Zero(t, ranks[1].Load.InFlight())
	})
}

// TestDeadBeforeForgotten: an observer that takes its time must not keep a
// dead worker in the choice.
func TestDeadBeforeForgotten(t *testing.T) {
	watch(t, nil, func(b *bench) {
		b.after(0)
		b.calls.block = make(chan struct{})
		canceled := false
		b.worker.Await(func(dead bool) bool { canceled = dead; return dead })
		b.fake.set(refusing)
		b.after(probed)
		b.want(worker.Dead, "up")
		close(b.calls.block)
		b.after(0)
		b.want(worker.Dead, "up", "down")
		require.True(t, canceled, "a request that waits for a dead worker")
	})
}

func TestHang(t *testing.T) {
	watch(t, nil, func(b *bench) {
		b.after(0)
		var mu sync.Mutex
		count := map[string]int{} // guarded by mu
		wait := func(name string) uint64 {
			return b.worker.Await(func(dead bool) bool {
				mu.Lock()
				defer mu.Unlock()
				require.False(t, dead)
				count[name]++
				return name != "stays" || count[name] == 3
			})
		}
		counted := func() map[string]int { mu.Lock(); defer mu.Unlock(); return maps.Clone(count) }
		early, begun, stays := wait("early"), wait("begun"), wait("stays")
		b.worker.Begun(begun)
		b.fake.set(hanging)
		b.after(4 * time.Second)
		b.want(worker.Slow, "up")
		require.Empty(t, counted(), "canceled before HangAfter")
		late := wait("late")
		b.after(3 * time.Second)
		require.Equal(t, 1, counted()["early"])
		require.Equal(t, 1, counted()["late"])

		// After each probe: one that comes later is asked, too, and one that had nowhere to go
		// is asked again.
		last := wait("last")
		b.after(time.Minute)
		require.Equal(t, map[string]int{"early": 1, "late": 1, "last": 1, "stays": 3}, counted(), "canceled later in the same hang")
		b.worker.Begun(stays)
		b.worker.Begun(early)
		b.worker.Begun(late)
		b.worker.Begun(last)
		b.worker.Begun(last)

		b.fake.set(up)
		b.after(probed)
		b.want(worker.Ready, "up")
		wait("again")
		b.fake.set(hanging)
		b.after(4 * time.Second)
		require.Zero(t, counted()["again"], "the second hang is counted from its own beginning")
		b.after(3 * time.Second)
		require.Equal(t, 1, counted()["again"], "canceled in the second hang")
	})
}

// TestHangIsCountedInARow: time-outs with answers between them are no hang.
func TestHangIsCountedInARow(t *testing.T) {
	watch(t, nil, func(b *bench) {
		b.after(0)
		b.worker.Await(func(bool) bool {
			t.Error("a request was canceled though the worker answered between the time-outs")
			return true
		})
		for range 5 {
			b.fake.set(hanging)
			b.after(4 * time.Second)
			b.want(worker.Slow, "up")
			b.fake.set(starting)
			b.after(time.Second)
			b.want(worker.Probing, "up")
		}
	})
}

func TestSuspect(t *testing.T) {
	watch(t, nil, func(b *bench) {
		b.after(0)
		b.after(10 * time.Millisecond) // between two probes
		before, since := b.fake.got("/ready"), b.worker.Since()
		b.worker.Suspect()
		require.Equal(t, worker.Slow, b.worker.State(), "state at once")
		require.True(t, b.worker.Since().After(since), "the change of state is dated")
		b.worker.Suspect() // a second request fails on the same worker
		b.after(0)
		b.want(worker.Ready, "up")
		require.Greater(t, b.fake.got("/ready"), before, "probes without waiting for the interval")

		b.fake.set(refusing)
		b.worker.Suspect()
		b.after(0)
		b.want(worker.Dead, "up", "down")
		b.worker.Suspect()
		b.want(worker.Dead, "up", "down")
	})
}

func TestDrain(t *testing.T) {
	watch(t, nil, func(b *bench) {
		b.after(0)
		b.worker.Drain(true)
		b.want(worker.Draining, "up")
		b.after(time.Second)
		b.want(worker.Draining, "up")
		b.fake.set(refusing)
		b.after(probed)
		b.want(worker.Dead, "up", "down")
		b.fake.set(up)
		b.after(probed)
		b.want(worker.Draining, "up", "down", "up")
		b.worker.Drain(false)
		b.want(worker.Ready, "up", "down", "up")
	})
}

// TestRemoveDoesNotWaitForTheWorker: a worker that hangs can be removed at
// once, in a probe as in discovery.
func TestRemoveDoesNotWaitForTheWorker(t *testing.T) {
	for _, path := range []string{"/ready", "/server_info", "/v1/models"} {
		t.Run(path, func(t *testing.T) {
			watch(t, func(f *fake) { f.hang[path] = true }, func(b *bench) {
				b.after(10 * time.Millisecond)
				began := time.Now()
				require.NoError(t, b.registry.Remove(fakeURL))
				require.Zero(t, time.Since(began), "time until a hanging worker was removed")
				require.Empty(t, b.calls.all())
				require.Empty(t, b.worker.LastError(), "a probe cut short is no failure")
			})
		})
	}
}

func TestRemove(t *testing.T) {
	watch(t, nil, func(b *bench) {
		b.after(0)
		require.NoError(t, b.registry.Remove(fakeURL+"/"))
		b.want(worker.Ready, "up", "down") // requests on it may finish
		require.Empty(t, b.registry.Snapshot().Workers)
		require.ErrorIs(t, b.registry.Remove(fakeURL), worker.ErrUnknown)
		_, err := b.registry.Get(fakeURL)
		require.ErrorIs(t, err, worker.ErrUnknown)

		again, err := b.registry.Add(fakeURL)
		require.NoError(t, err)
		require.NotSame(t, b.worker, again)
		synctest.Wait()
		require.Equal(t, []string{"up", "down", "up"}, b.calls.all())
	})
}

func TestRunEndsEveryWorker(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f, c := newFake(), &calls{}
		r := worker.NewRegistry(worker.Config{Log: slog.New(slog.DiscardHandler), Dial: f.dial}, c)
		for _, url := range []string{"http://a:1", "http://b:1"} {
			_, err := r.Add(url)
			require.NoError(t, err)
		}
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, r.Run(ctx))
		time.Sleep(time.Minute) // the client's cleaner of connections ends
		require.Equal(t, []string{"up", "up", "down", "down"}, c.all())
		_, err := r.Add("http://c:1")
		require.True(t, errors.Is(err, worker.ErrClosed), "Add after the end: %v", err)
	})
}
