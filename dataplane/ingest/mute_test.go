package ingest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/ingest"
	"github.com/warmpath/warmpath/radix"
	"github.com/warmpath/warmpath/zmq/kvevent"
)

// works counts answers to new prompts of 500 tokens, one a second for so long.
func (w *world) works(seconds int) {
	count := &w.worker.Ranks()[0].Count
	for range seconds {
		count.Requests.Add(1)
		count.Stored.Add(500)
		w.after(time.Second)
	}
}

// TestMute: a rank that goes on computing and publishes nothing is no longer
// believed, whether its replay endpoint answers or not, until it is heard again.
func TestMute(t *testing.T) {
	for _, test := range []struct {
		name             string
		broken, noReplay bool
	}{{name: "replays answer"}, {name: "replays do not answer", broken: true}, {name: "no replays", noReplay: true}} {
		t.Run(test.name, func(t *testing.T) {
			inWorld(t, ingest.Config{}, 1, func(w *world) {
				p, rank := w.pubs[0], w.worker.Ranks()[0]
				if test.noReplay {
					w.info.Events.Replays = nil
				}
				w.up()
				p.publish(true, store(a, 0, 4))
				w.after(time.Minute)
				w.wantHeld(4, a, "a quiet rank is believed")
				require.Equal(t, !test.noReplay, rank.Exact())

				p.with(func() { p.broken = test.broken })
				w.works(30)
				require.False(t, rank.Exact())
				require.Equal(t, ingest.Degraded, w.stats().State())
				require.EqualValues(t, 1, w.stats().Mutes.Load())
				w.wantHeld(0, a, "nothing can be known any more")
				w.works(60)
				require.EqualValues(t, 1, w.stats().Mutes.Load(), "an old replay makes nobody live")
				require.False(t, rank.Exact())

				p.with(func() { p.broken = false })
				p.publish(true, store(b, 0, 4))
				synctest.Wait()
				w.wantHeld(4, b, "heard again")
				w.after(6 * time.Second)
				require.Equal(t, !test.noReplay, rank.Exact())
				if !test.noReplay {
					w.wantHeld(4, a, "by the replay")
				}
				w.m.Down(w.worker)
				require.False(t, rank.Exact())
			})
		})
	}
}

// TestWorkThatTellsIsNotMute: nor is one that computes nothing new.
func TestWorkThatTellsIsNotMute(t *testing.T) {
	inWorld(t, ingest.Config{}, 1, func(w *world) {
		w.up()
		for i := range 100 {
			if i%7 == 0 {
				w.pubs[0].publish(true, store(a, 0, 4))
			}
			w.works(1)
		}
		require.Zero(t, w.stats().Mutes.Load(), "an event every 7 s")
		count := &w.worker.Ranks()[0].Count
		count.Stored.Add(100_000) // an answer that ended long after its prompt was stored
		w.after(time.Minute)
		for range 200 {
			count.Requests.Add(100)
			count.PromptTokens.Add(10_000) // which it had all
			w.after(time.Second)
		}
		require.Zero(t, w.stats().Mutes.Load())
		require.Equal(t, ingest.Live, w.stats().State())
	})
}

// TestContentIsDisownedFirst: a request that finds the content gone finds the rank no longer
// exact, and asks the approximate index instead.
func TestContentIsDisownedFirst(t *testing.T) {
	inWorld(t, ingest.Config{}, 1, func(w *world) {
		p, rank := w.pubs[0], w.worker.Ranks()[0]
		events := []kvevent.Event{store(a, 0, 8)}
		for i := range uint32(5000) { // each is dropped by itself, which takes milliseconds
			events = append(events, store(prompt(100+i, 1), 0, 1))
		}
		w.up()
		p.publish(true, events...)
		synctest.Wait()
		require.True(t, rank.Exact())
		p.with(func() { p.broken = true })
		disowned := make(chan struct{})
		go func() {
			defer close(disowned)
			for {
				held := w.held(0, radix.DomainKey{}, a) // before the flag, as routing does
				if !rank.Exact() || !assert.Equal(t, 8, held, "blocks of an exact rank") {
					return
				}
			}
		}()
		p.restart()
		p.publish(true, store(b, 0, 8)) // another process's
		<-disowned
	})
}
