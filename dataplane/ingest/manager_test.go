package ingest_test

import (
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/bubbletest"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/ingest"
	"github.com/warmpath/warmpath/radix"
)

func TestDownForgets(t *testing.T) {
	inWorld(t, ingest.Config{}, 1, func(w *world) {
		rank := w.worker.Ranks()[0]
		w.up()
		w.pubs[0].publish(true, store(a, 0, 4))
		synctest.Wait()
		require.Len(t, rank.IndexIDs(), 1)
		w.m.Down(w.worker)
		require.Nil(t, w.m.Stream(rank))
		require.Empty(t, w.m.View().Shapes)
		require.Zero(t, w.index.Stats().Entries, "blocks of a worker that is down")
		// The id serves the next one: a rank that kept it would be credited with
		// another rank's blocks.
		require.Empty(t, rank.IndexIDs(), "holders of a rank that is down")
		w.m.Down(w.worker)

		w.info.Events = nil // back, with its events switched off
		w.up()
		require.Nil(t, w.m.Stream(rank))
		require.Empty(t, rank.IndexIDs(), "holders of a rank without events")
	})
}

func TestUpAgain(t *testing.T) {
	inWorld(t, ingest.Config{}, 1, func(w *world) {
		p := w.pubs[0]
		w.up()
		p.publish(true, store(a, 0, 4))
		synctest.Wait()
		p.restart()
		p.publish(true, store(b, 0, 2))
		w.up() // its going down was missed
		w.wantHeld(0, a, "of the old process")
		w.wantHeld(2, b, "of the new process")
		require.Len(t, p.subs, 1, "subscriptions")
		require.EqualValues(t, 1, w.index.Stats().Workers)
	})
}

// TestDownDuringReplay: nothing waits for an engine that does not answer.
func TestDownDuringReplay(t *testing.T) {
	inWorld(t, ingest.Config{}, 1, func(w *world) {
		p := w.pubs[0]
		p.publish(true, store(a, 0, 4))
		p.hold = make(chan struct{}) // never closed
		w.up()
		w.wantHeld(4, a, "what the replay brought so far")
		w.m.Down(w.worker)
		require.Zero(t, w.index.Stats().Entries)
	})
}

func TestRanksAreSeparate(t *testing.T) {
	inWorld(t, ingest.Config{}, 3, func(w *world) {
		w.up()
		w.pubs[0].publish(true, store(a, 0, 4))
		w.pubs[2].publish(true, store(a, 0, 2), store(b, 0, 1))
		synctest.Wait()
		for rank, want := range [][]int{{4, 0}, {0, 0}, {2, 1}} {
			got := []int{w.held(rank, plain, a), w.held(rank, plain, b)}
			require.Equal(t, want, got, "blocks of a and b that rank %d holds", rank)
		}
		w.pubs[0].publish(true, cleared)
		w.pubs[2].restart()
		w.pubs[2].publish(true, store(b, 0, 3))
		synctest.Wait()
		for rank, want := range [][]int{{0, 0}, {0, 0}, {0, 3}} {
			got := []int{w.held(rank, plain, a), w.held(rank, plain, b)}
			require.Equal(t, want, got, "blocks of a and b that rank %d holds later", rank)
		}
		require.Equal(t, []ingest.Shape{{Model: model, BlockSize: page}}, w.m.View().Shapes, "one shape for all")
	})
}

// TestFewerEndpointsThanRanks: a rank without events is chosen by load alone.
func TestFewerEndpointsThanRanks(t *testing.T) {
	inWorld(t, ingest.Config{}, 2, func(w *world) {
		w.info.Events.Endpoints, w.info.Events.Replays = w.info.Events.Endpoints[:1], nil
		w.up()
		require.NotNil(t, w.m.Stream(w.worker.Ranks()[0]))
		require.Nil(t, w.m.Stream(w.worker.Ranks()[1]))
	})
}

// TestTwoWorkersOfOnePublisher: where two processes name one address for their events, it tells whose
// they are of neither; one process under two names publishes for both.
func TestTwoWorkersOfOnePublisher(t *testing.T) {
	type rank struct{ live, replay string }
	for name, tt := range map[string]struct {
		processes [2]uint64
		first     []rank
		second    []rank
		shared    [2][]bool
	}{
		"two processes":     {[2]uint64{1, 2}, []rank{{"l0", "r0"}}, []rank{{"l0", "r0"}}, [2][]bool{{true}, {true}}},
		"unknown processes": {[2]uint64{}, []rank{{"l0", "r0"}}, []rank{{"l0", "r0"}}, [2][]bool{{true}, {true}}},
		"one process":       {[2]uint64{1, 1}, []rank{{"l0", "r0"}}, []rank{{"l0", "r0"}}, [2][]bool{{false}, {false}}},
		"one replay":        {[2]uint64{1, 2}, []rank{{"l0", "r0"}}, []rank{{"l1", "r0"}}, [2][]bool{{true}, {true}}},
		"crossed":           {[2]uint64{1, 2}, []rank{{"l0", "r0"}}, []rank{{"r0", "l0"}}, [2][]bool{{true}, {true}}},
		"some ranks":        {[2]uint64{1, 2}, []rank{{"l0", "r0"}, {"l1", "r1"}}, []rank{{"l1", "r1"}, {"l2", "r2"}}, [2][]bool{{false, true}, {true, false}}},
		"none":              {[2]uint64{1, 2}, []rank{{"l0", "r0"}}, []rank{{"l1", "r1"}}, [2][]bool{{false}, {false}}},
		"none, no replays":  {[2]uint64{1, 2}, []rank{{"l0", ""}}, []rank{{"l1", ""}}, [2][]bool{{false}, {false}}},
	} {
		t.Run(name, func(t *testing.T) {
			bubbletest.Test(t, func(t *testing.T) {
				net, index := network{}, radix.New(radix.Config{})
				for i := range 3 {
					p := newPublisher()
					net[fmt.Sprintf("l%d", i)], net[fmt.Sprintf("r%d", i)] = p, p
				}
				m := ingest.NewManager(ingest.Config{Log: slog.New(slog.DiscardHandler)}, index, net.subscribe, net.replay)
				all := workers(t, len(tt.first), "http://w0:1", "http://w1:1")
				up := func(i int) {
					info := &worker.Info{Models: []string{model}, DPSize: len(tt.first), Process: tt.processes[i], Events: &worker.Events{}}
					for _, r := range [][]rank{tt.first, tt.second}[i] {
						info.Events.Endpoints = append(info.Events.Endpoints, r.live)
						if r.replay != "" {
							info.Events.Replays = append(info.Events.Replays, r.replay)
						}
					}
					m.Up(all[i], info)
				}
				check := func(i int, shared []bool) {
					t.Helper()
					for n, r := range all[i].Ranks() {
						want := worker.NoEventFault
						if shared[n] {
							want = worker.EventsShared
						}
						require.Equal(t, want.Why(), r.Events.Fault().Why(), r.ID())
						require.Equal(t, !shared[n], r.Events.Credited(), r.ID())
						require.False(t, shared[n] && r.Exact(), r.ID())
					}
				}
				none := make([]bool, len(tt.first))
				up(0)
				check(0, none)
				up(1)
				check(0, tt.shared[0])
				check(1, tt.shared[1])
				up(1) // its going down was missed
				check(0, tt.shared[0])
				m.Down(all[0])
				check(0, none)
				check(1, none)
				up(0)
				check(0, tt.shared[0])
				check(1, tt.shared[1])
				m.Down(all[1])
				check(0, none)
				m.Down(all[0])
			})
		})
	}
}

func TestCannotSubscribe(t *testing.T) {
	inWorld(t, ingest.Config{}, 1, func(w *world) {
		w.info.Events.Endpoints[0] = "nowhere"
		w.up()
		require.Equal(t, ingest.Degraded, w.stats().State())
	})
}

// TestManyWorkersComeAndGo is for the race detector: streams, views and
// look-ups beside each other.
func TestManyWorkersComeAndGo(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		const count = 4
		net, index := network{}, radix.New(radix.Config{})
		m := ingest.NewManager(ingest.Config{Log: slog.New(slog.DiscardHandler)}, index, net.subscribe, net.replay)
		var urls []string
		for i := range count {
			urls = append(urls, fmt.Sprintf("http://w%d:1", i))
			p := newPublisher()
			p.keep = 8
			net[fmt.Sprintf("live%d", i)], net[fmt.Sprintf("replay%d", i)] = p, p
		}
		all := workers(t, 1, urls...)
		var wg sync.WaitGroup
		for i, w := range all {
			info := &worker.Info{Models: []string{model}, DPSize: 1, Events: &worker.Events{
				Endpoints: []string{fmt.Sprintf("live%d", i)}, Replays: []string{fmt.Sprintf("replay%d", i)},
			}}
			wg.Go(func() {
				for range 50 {
					m.Up(w, info)
					m.Down(w)
				}
				m.Up(w, info)
			})
			wg.Go(func() {
				p := net[fmt.Sprintf("live%d", i)]
				for n := range 200 {
					p.publish(n%7 != 0, store(a, 0, 4), remove(a, 1, 4))
				}
			})
			wg.Go(func() {
				for range 200 {
					for _, shape := range m.View().Shapes {
						if d, ok := index.FindDomain(radix.DomainKey{Model: shape.Model, BlockSize: shape.BlockSize}); ok {
							index.Match(nil, d, index.AppendHashes(nil, a, page))
						}
					}
					if s := m.Stream(w.Ranks()[0]); s != nil {
						s.Blocks()
						s.Stats.Lag()
					}
					w.Ranks()[0].IndexIDs()
				}
			})
		}
		wg.Wait()
		for _, w := range all {
			m.Down(w)
			require.Empty(t, w.Ranks()[0].IndexIDs())
		}
		require.Zero(t, index.Stats().Workers)
		require.Zero(t, index.Stats().Entries)
		require.Empty(t, m.View().Shapes)
	})
}
