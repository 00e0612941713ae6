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
