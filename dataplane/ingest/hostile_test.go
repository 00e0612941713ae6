package ingest_test

import (
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/ingest"
	"github.com/warmpath/warmpath/radix"
	"github.com/warmpath/warmpath/zmq/kvevent"
)

// numbered sends events under a number of the test's choice.
func (p *publisher) numbered(seq uint64, events ...kvevent.Event) {
	p.with(func() { p.seq = seq })
	p.publish(true, events...)
}

// TestNumbersThatMeanNothing: a publisher with numbers that go back, jump or repeat is learnt
// again and again, at a bounded rate. Another rank of the same worker loses nothing meanwhile,
// and the first is right again as soon as its numbers are.
func TestNumbersThatMeanNothing(t *testing.T) {
	tests := map[string]func(i int) uint64{
		"backwards":     func(i int) uint64 { return uint64(messages - i) },
		"always 0":      func(int) uint64 { return 0 },
		"twice each":    func(i int) uint64 { return uint64(i / 2) },
		"with gaps":     func(i int) uint64 { return uint64(1000 * i) },
		"by chance":     func(i int) uint64 { return rand.New(rand.NewPCG(1, uint64(i))).Uint64N(messages) },
		"at the end":    func(i int) uint64 { return ^uint64(0) - uint64(i%3) },
		"to and fro":    func(i int) uint64 { return uint64(i%2) * 1_000_000 },
		"over the edge": func(i int) uint64 { return ^uint64(0) - messages/2 + uint64(i) },
	}
	for name, seq := range tests {
		for _, replays := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				inWorld(t, ingest.Config{}, 2, func(w *world) {
					bad, good := w.pubs[0], w.pubs[1]
					if !replays {
						w.info.Events.Replays = nil
					}
					w.up()
					bad.with(func() { bad.keep = 10 })
					for i := range messages {
						bad.numbered(seq(i), store(a, 0, 4), store(b, i%4, i%4+1))
						if i%(messages/4) == 0 {
							good.publish(true, store(c, i/(messages/4), i/(messages/4)+1))
						}
						w.after(time.Millisecond)
					}
					require.Equal(t, 4, w.held(1, radix.DomainKey{}, c), "the other rank")
					// The messages take a second at most; a tail check of its own may come in between.
					require.LessOrEqual(t, bad.asked(), 64+4+2, "replays")
					// Now it is a process like any other, after a restart.
					bad.restart()
					bad.publish(true, cleared)
					for i := range 8 {
						bad.publish(true, store(prompt(9, 8), i, i+1))
					}
					w.after(time.Minute)
					require.Equal(t, 8, w.held(0, radix.DomainKey{}, prompt(9, 8)), "right again")
					require.Equal(t, 0, w.held(0, radix.DomainKey{}, a), "what it held before")
				})
			})
		}
	}
}

// TestEndlessEvents: an event of a million blocks is applied, or refused; its rank goes on, and
// the index stays within its budget.
func TestEndlessEvents(t *testing.T) {
	const blocks = 1_000_000
	inWorld(t, ingest.Config{}, 1, func(w *world) {
		w.index = radix.New(radix.Config{Seed: 1, MaxBytes: 16 << 20})
		w.m = ingest.NewManager(ingest.Config{Log: slog.New(slog.DiscardHandler)}, w.index, w.net.subscribe, w.net.replay)
		w.up()
		p := w.pubs[0]
		ev := kvevent.Event{Kind: kvevent.Stored, BlockSize: page, Medium: kvevent.MediumGPU, Tokens: make([]uint32, blocks*page)}
		for i := range ev.Tokens {
			ev.Tokens[i] = uint32(i)
		}
		for i := range blocks {
			ev.Hashes = append(ev.Hashes, uint64(i)*0x9E3779B97F4A7C15)
		}
		p.publish(true, ev)
		gone := kvevent.Event{Kind: kvevent.Removed, Hashes: ev.Hashes, Medium: kvevent.MediumGPU}
		p.publish(true, gone, gone)
		p.publish(true, store(b, 0, 4))
		synctest.Wait()
		w.wantHeld(4, b, "after it")
		require.LessOrEqual(t, w.index.Stats().Bytes, 16<<20)
		require.EqualValues(t, 0, w.stats().Malformed.Load())
	})
}

// TestEndlessKinds: a rank whose events name ever other page sizes and groups costs choices and memory
// no more than one that names a few. What it named first counts.
func TestEndlessKinds(t *testing.T) {
	inWorld(t, ingest.Config{}, 1, func(w *world) {
		w.up()
		p := w.pubs[0]
		p.publish(true, store(a, 0, 4))
		for n := range 1000 {
			of := kvevent.Event{Kind: kvevent.Stored, BlockSize: page + 1 + n, Medium: kvevent.MediumGPU, Tokens: make([]uint32, page+1+n), Hashes: []uint64{uint64(n) + 1}}
			group := kvevent.Event{Kind: kvevent.Stored, BlockSize: page, Medium: kvevent.MediumGPU, Tokens: make([]uint32, page), Hashes: []uint64{uint64(n) + 1}}
			group.HasGroup, group.Group = true, n-500
			p.publish(true, of, group)
		}
		synctest.Wait()
		require.LessOrEqual(t, len(w.m.View().Shapes), 4)
		require.LessOrEqual(t, len(w.worker.Ranks()[0].IndexIDs()), 64)
		require.Positive(t, w.stats().Malformed.Load())
	})
}

// TestReplaysThatContradict: a rank whose replays are not what came live is set aside, though what
// comes live is right, and its process is not taken for another one again and again.
func TestReplaysThatContradict(t *testing.T) {
	restarts := 0
	inWorld(t, ingest.Config{OnRestart: func(*worker.Rank) { restarts++ }}, 1, func(w *world) {
		p, rank := w.pubs[0], w.worker.Ranks()[0]
		w.up()
		p.fault = func() fault {
			p.others = slices.Clone(p.kept)
			for i := range p.others {
				p.others[i].Payload = append(slices.Clone(p.kept[i].Payload[:len(p.kept[i].Payload)-1]), 7) // another rank of the process
			}
			return foreign
		}
		for i := range 1000 {
			p.publish(i%50 != 49, store(a, i%8, i%8+1))
			w.after(100 * time.Millisecond)
		}
		require.Equal(t, worker.EventsUnreadable, rank.Events.Fault())
		require.EqualValues(t, 1, rank.Events.Times())
		require.Less(t, restarts, 5)
	})
}
