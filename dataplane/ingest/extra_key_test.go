package ingest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/ingest"
	"github.com/warmpath/warmpath/zmq/kvevent"
)

// expect tells the rank's stream of a prompt with an extra_key.
func (w *world) expect(tokens []uint32) *worker.ExtraKeyPrompt {
	var blocks []uint64
	for _, h := range w.index.AppendHashes(nil, tokens, page) {
		blocks = append(blocks, uint64(h))
	}
	return w.worker.Ranks()[0].ExtraKeys.Expect(blocks)
}

// TestKeyedPrompts: blocks of a prompt with an extra_key are held and credited to no plain prompt, in whatever order the events of both
// come, with their answers and copies in host memory, and when a replay brings them again.
func TestKeyedPrompts(t *testing.T) {
	inWorld(t, ingest.Config{}, 1, func(w *world) {
		p, keyed := w.pubs[0], &w.worker.Ranks()[0].ExtraKeys
		w.up()
		sent := w.expect(a[:4*page])
		p.publish(true, store(a, 0, 4), store(a, 4, 5)) // and a page of its answer
		up := store(a, 0, 5)
		up.Medium = kvevent.MediumCPU
		p.publish(true, up)
		synctest.Wait()
		require.Positive(t, w.stream(0).Blocks())
		w.wantHeld(0, a, "a plain prompt")
		keyed.End(sent)
		w.after(3 * time.Second)
		require.False(t, keyed.Any())

		p.publish(true, store(a, 0, 2), store(b, 0, 3))
		synctest.Wait()
		w.wantHeld(2, a, "stored by a plain prompt")
		w.wantHeld(3, b, "another prompt")

		// Both at once: of two stores of a page, one is the plain prompt's.
		sent = w.expect(c)
		p.publish(true, store(c, 0, 8))
		synctest.Wait()
		w.wantHeld(0, c, "one store of two")
		p.publish(true, store(c, 0, 8))
		synctest.Wait()
		w.wantHeld(8, c, "two stores")
		p.publish(true, remove(c, 6, 8))
		synctest.Wait()
		require.LessOrEqual(t, w.credited(c), 6, "which of them was removed is not known")
		keyed.End(sent)

		// A replay of all of that credits no more.
		p.publish(true, cleared, store(b, 0, 1))
		sent = w.expect(a)
		p.publish(true, store(a, 0, 8))
		synctest.Wait()
		w.wantHeld(0, a, "keyed again")
		keyed.End(sent)
		w.after(3 * time.Second)
		p.publish(true, store(prompt(7, 8), 3, 4)) // its parent is unknown: the rank is learnt anew
		w.after(time.Minute)
		p.publish(true, store(prompt(7, 8), 3, 4))
		w.after(time.Minute)
		require.Greater(t, w.stats().Resyncs.Load(), uint64(1))
		w.wantHeld(0, a, "by a replay")
		w.wantHeld(1, b, "by a replay")
	})
}
