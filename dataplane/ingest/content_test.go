package ingest_test

import (
	"bytes"
	"log/slog"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/ingest"
	"github.com/warmpath/warmpath/radix"
	"github.com/warmpath/warmpath/zmq/kvevent"
)

var plain = radix.DomainKey{}

// with changes an event.
func with(ev kvevent.Event, change func(ev *kvevent.Event)) kvevent.Event {
	change(&ev)
	return ev
}

func TestEvents(t *testing.T) {
	host := func(ev *kvevent.Event) { ev.Medium = kvevent.MediumCPU }
	none := func(ev *kvevent.Event) { ev.Medium = kvevent.MediumNone }
	salted := func(ev *kvevent.Event) { ev.CacheSalt = []byte("s") }
	adapted := func(ev *kvevent.Event) { ev.LoRAName = []byte("sql") }
	tests := []struct {
		name   string
		events []kvevent.Event
		domain radix.DomainKey
		want   int // blocks of a
	}{
		{"stored", []kvevent.Event{store(a, 0, 3)}, plain, 3},
		{"stored in parts", []kvevent.Event{store(a, 0, 2), store(a, 2, 5)}, plain, 5},
		{"removed from the end", []kvevent.Event{store(a, 0, 5), remove(a, 3, 5)}, plain, 3},
		{"hole", []kvevent.Event{store(a, 0, 5), remove(a, 1, 2)}, plain, 1},
		{"hole filled", []kvevent.Event{store(a, 0, 5), remove(a, 1, 2), store(a, 1, 2)}, plain, 5},
		{"cleared", []kvevent.Event{store(a, 0, 5), store(b, 0, 1), cleared}, plain, 0},
		{"stored after a clear", []kvevent.Event{store(a, 0, 5), cleared, store(a, 0, 2)}, plain, 2},
		{"twice, removed once", []kvevent.Event{store(a, 0, 2), store(a, 0, 2), remove(a, 0, 2)}, plain, 2},
		{"gone from the GPU, still in host memory", []kvevent.Event{store(a, 0, 3), with(store(a, 0, 3), host), remove(a, 0, 3)}, plain, 3},
		{"gone from both tiers", []kvevent.Event{
			store(a, 0, 3), with(store(a, 0, 3), host), remove(a, 0, 3), with(remove(a, 1, 3), host),
		}, plain, 1},
		{"gone from the GPU, and never stored there", []kvevent.Event{with(store(a, 0, 3), host), remove(a, 1, 3)}, plain, 1},
		{"removed from a tier where it is not", []kvevent.Event{store(a, 0, 3), with(remove(a, 0, 3), host)}, plain, 3},
		{"removed from no tier in particular", []kvevent.Event{with(store(a, 0, 3), none), with(remove(a, 1, 3), none)}, plain, 1},
		{"salted is not plain", []kvevent.Event{with(store(a, 0, 3), salted)}, plain, 0},
		{"plain is not salted", []kvevent.Event{store(a, 0, 3)}, radix.DomainKey{Salt: "s"}, 0},
		{"salted", []kvevent.Event{with(store(a, 0, 3), salted)}, radix.DomainKey{Salt: "s"}, 3},
		{"another salt", []kvevent.Event{with(store(a, 0, 3), salted)}, radix.DomainKey{Salt: "t"}, 0},
		{"adapter is not base", []kvevent.Event{with(store(a, 0, 3), adapted)}, plain, 0},
		{"adapter", []kvevent.Event{with(store(a, 0, 3), adapted)}, radix.DomainKey{LoRA: "sql"}, 3},
		{"adapter's salt", []kvevent.Event{with(store(a, 0, 3), adapted)}, radix.DomainKey{LoRA: "sql", Salt: "s"}, 0},
		{"bigrams are not tokens", []kvevent.Event{bigrams(a, 3)}, plain, 0},
		{"unknown parent", []kvevent.Event{store(a, 2, 4)}, plain, 0},
		{"removal of what was never stored", []kvevent.Event{store(a, 0, 2), remove(b, 0, 2)}, plain, 2},
		{"removal of some that were never stored", []kvevent.Event{store(a, 0, 5), with(remove(a, 2, 5), func(ev *kvevent.Event) {
			ev.Hashes = slices.Concat(remove(b, 0, 1).Hashes, ev.Hashes, remove(b, 1, 2).Hashes)
		})}, plain, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, ingest.Config{}, 1, func(w *world) {
				w.up()
				w.pubs[0].publish(true, tt.events...)
				synctest.Wait()
				require.Equal(t, tt.want, w.held(0, tt.domain, a), "blocks held in %+v", tt.domain)
				require.Zero(t, w.stats().Malformed.Load(), "malformed")
			})
		})
	}
}

// pairs flattens the bigrams of tokens.
func pairs(tokens []uint32) (out []uint32) {
	for i := range len(tokens) - 1 {
		out = append(out, tokens[i], tokens[i+1])
	}
	return out
}

// bigrams is the store of n EAGLE pages of tokens.
func bigrams(tokens []uint32, n int) kvevent.Event {
	return with(store(tokens, 0, n), func(ev *kvevent.Event) {
		ev.Bigram, ev.Tokens = true, pairs(tokens)[:2*n*page]
	})
}

func TestBigrams(t *testing.T) {
	inWorld(t, ingest.Config{}, 1, func(w *world) {
		told := ingest.Shape{Model: model, BlockSize: page}
		w.up()
		require.Equal(t, []ingest.Shape{told}, w.m.View().Shapes, "shapes by the worker's description")
		w.pubs[0].publish(true, bigrams(a, 3))
		synctest.Wait()
		require.Equal(t, 3, w.held(0, radix.DomainKey{Bigram: true}, pairs(a)))
		seen := told
		seen.Bigram = true
		require.Equal(t, []ingest.Shape{told, seen}, w.m.View().Shapes, "shapes by its events too")
	})
}

// TestAdaptersWithoutAName: releases before 0.5.22 send an id that no request
// carries. Their blocks match nothing, each other's removals aside.
func TestAdaptersWithoutAName(t *testing.T) {
	inWorld(t, ingest.Config{}, 1, func(w *world) {
		w.up()
		ev := with(store(a, 0, 3), func(ev *kvevent.Event) { ev.LoRAID, ev.HasLoRAID = 7, true })
		w.pubs[0].send(true, kvevent.Append(nil, &kvevent.Batch{Events: []kvevent.Event{ev}}, kvevent.SGLang0508))
		synctest.Wait()
		require.Zero(t, w.held(0, plain, a), "blocks of an adapter for a plain prompt")
		require.Equal(t, 3, w.stream(0).Blocks())
	})
}

// TestExtraKeys: an image makes a block another one, though its tokens are the
// same.
func TestExtraKeys(t *testing.T) {
	inWorld(t, ingest.Config{}, 1, func(w *world) {
		w.up()
		ev := with(store(a, 0, 4), func(ev *kvevent.Event) {
			ev.ExtraKeys = [][]byte{nil, {0x91, 0xa3, 'i', 'm', 'g'}, nil, nil} // from the second block on
		})
		w.pubs[0].send(true, kvevent.Append(nil, &kvevent.Batch{Events: []kvevent.Event{ev}}, kvevent.VLLM032))
		synctest.Wait()
		require.Equal(t, 4, w.stream(0).Blocks())
		w.wantHeld(1, a, "up to the image")
	})
}

// TestExtraKey: so does any key of the whole request.
func TestExtraKey(t *testing.T) {
	inWorld(t, ingest.Config{}, 1, func(w *world) {
		w.up()
		// [1.5, [{"type": "BlockStored", …, "extra_key": "tenant"}], nil]
		payload := kvevent.Append(nil, &kvevent.Batch{Time: 1.5, Events: []kvevent.Event{store(a, 0, 4)}}, kvevent.SGLang0523)
		at := bytes.IndexByte(payload[10:], 0x91) + 11
		require.Equal(t, byte(0x80), payload[at]&0xf0, "the event is a small map")
		payload[at]++
		payload = slices.Insert(payload, at+1, []byte("\xa9extra_key\xa6tenant")...)
		w.pubs[0].send(true, payload)
		synctest.Wait()
		require.Equal(t, 4, w.stream(0).Blocks())
		w.wantHeld(0, a, "by a prompt without the key")
		w.pubs[0].publish(true, remove(a, 2, 4))
		synctest.Wait()
		require.Equal(t, 2, w.stream(0).Blocks(), "they are removed by name as others are")
	})
}

// TestBadEventAmongGood: a meaningless event is counted, and the rest of its message holds.
func TestBadEventAmongGood(t *testing.T) {
	inWorld(t, ingest.Config{}, 1, func(w *world) {
		w.up()
		w.pubs[0].publish(true, store(a, 0, 4))
		// [1.5, [["BlockRemoved", [0.5]], ["AllBlocksCleared"]]]
		w.pubs[0].send(true, []byte("\x92\x01\x92\x92\xacBlockRemoved\x91\xca\x3f\x00\x00\x00\x91\xb0AllBlocksCleared"))
		synctest.Wait()
		require.EqualValues(t, 1, w.stats().Malformed.Load())
		w.wantHeld(0, a, "cleared by the event behind")
	})
}

// TestGroups: a hybrid model has a cache for each kind of layers, and only blocks in all of them
// count.
func TestGroups(t *testing.T) {
	group := func(ev kvevent.Event, g int) kvevent.Event {
		ev.Group, ev.HasGroup = g, true
		return ev
	}
	inWorld(t, ingest.Config{}, 1, func(w *world) {
		w.up()
		send := func(events ...kvevent.Event) {
			w.pubs[0].send(true, kvevent.Append(nil, &kvevent.Batch{Events: events}, kvevent.VLLM032))
			synctest.Wait()
		}
		send(group(store(a, 0, 5), 0))
		w.wantHeld(5, a, "one group")
		send(group(store(a, 0, 3), 1))
		require.Len(t, w.worker.Ranks()[0].IndexIDs(), 2)
		w.wantHeld(3, a, "the least of two groups")
		send(group(remove(a, 2, 3), 1))
		w.wantHeld(2, a, "removed from one group")
		send(group(remove(a, 0, 1), 7))
		require.EqualValues(t, 1, w.stats().UnknownRemovals.Load(), "removals from a group that was never seen")
		send(cleared)
		w.wantHeld(0, a, "cleared")
		require.Zero(t, w.stream(0).Blocks())
	})
}

func TestBadPayloads(t *testing.T) {
	width := with(store(a, 0, 2), func(ev *kvevent.Event) { ev.Tokens = ev.Tokens[:page] })
	noWidth := with(store(a, 0, 2), func(ev *kvevent.Event) { ev.BlockSize, ev.Tokens = 0, nil })
	empty := with(store(a, 0, 2), func(ev *kvevent.Event) { ev.Hashes, ev.Tokens = nil, nil })
	encode := func(ev kvevent.Event) []byte {
		return kvevent.Append(nil, &kvevent.Batch{Events: []kvevent.Event{ev}}, kvevent.SGLang0523)
	}
	tests := []struct {
		name    string
		payload []byte
	}{
		{"nothing", nil},
		{"garbage", []byte{0xc1, 0xff}},
		{"cut short", encode(store(a, 0, 2))[:20]},
		{"fewer tokens than blocks", encode(width)},
		{"blocks of no size", encode(noWidth)},
		{"no blocks", encode(empty)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, ingest.Config{}, 1, func(w *world) {
				w.up()
				p := w.pubs[0]
				p.publish(true, store(b, 0, 2))
				p.send(true, tt.payload)
				p.publish(true, store(b, 2, 4))
				w.after(time.Minute) // and the tail checks meet it again
				require.EqualValues(t, 1, w.stats().Malformed.Load(), "malformed")
				w.wantHeld(0, a, "from the bad payload")
				w.wantHeld(4, b, "from the others")
				require.EqualValues(t, []uint64{3, 0, 1}, []uint64{
					w.stats().Batches.Load(), w.stats().Gaps.Load(), w.stats().Resyncs.Load(),
				}, "batches, gaps, resyncs")
			})
		})
	}
}

func TestMalformedFrames(t *testing.T) {
	inWorld(t, ingest.Config{}, 1, func(w *world) {
		w.up()
		w.pubs[0].with(func() {
			for _, s := range w.pubs[0].subs {
				s.OnMalformed(2)
			}
		})
		require.EqualValues(t, 1, w.stats().Malformed.Load())
	})
}

func TestUnknownEventsAndFields(t *testing.T) {
	inWorld(t, ingest.Config{}, 1, func(w *world) {
		w.up()
		// [0.0, [{"type": "BlockMoved"}, {"type": "AllBlocksCleared", "why": 1}], nil]
		payload := []byte{0x93, 0xcb, 0, 0, 0, 0, 0, 0, 0, 0, 0x92}
		payload = append(payload, "\x81\xa4type\xaaBlockMoved"...)
		payload = append(payload, "\x82\xa4type\xb0AllBlocksCleared\xa3why\x01"...)
		payload = append(payload, 0xc0)
		w.pubs[0].publish(true, store(a, 0, 2))
		w.pubs[0].send(true, payload)
		synctest.Wait()
		require.EqualValues(t, []uint64{1, 1, 0}, []uint64{
			w.stats().UnknownEvents.Load(), w.stats().UnknownFields.Load(), w.stats().Malformed.Load(),
		}, "unknown events, unknown fields, malformed")
		w.wantHeld(0, a, "cleared, unknown field and all")
	})
}

// TestOrphans: a store behind an unknown parent says that something was
// missed. The rank is learned anew, but not again and again when that does not
// help.
func TestOrphans(t *testing.T) {
	inWorld(t, ingest.Config{ResyncEvery: 10 * time.Second, TailCheck: time.Hour}, 1, func(w *world) {
		p := w.pubs[0]
		w.up()
		p.publish(true, store(a, 2, 4))
		synctest.Wait()
		require.EqualValues(t, 1, w.stats().UnknownParents.Load())
		require.EqualValues(t, 1, w.stats().Resyncs.Load(), "resyncs within ResyncEvery")

		resyncs := func(d time.Duration) (n uint64) {
			before := w.stats().Resyncs.Load()
			for range d / time.Second {
				w.after(time.Second)
				p.publish(true, store(a, 2, 4))
			}
			synctest.Wait()
			return w.stats().Resyncs.Load() - before
		}
		require.EqualValues(t, 1, resyncs(11*time.Second), "the first one after ResyncEvery")
		require.LessOrEqual(t, resyncs(10*time.Minute), uint64(6), "resyncs that do not help back off")

		// Where a resync helps, the next trouble is looked at as fast as ever.
		w.m.Down(w.worker)
		p.with(func() { p.kept, p.seq = nil, 0 })
		p.publish(true, store(a, 0, 2))
		w.up()
		w.after(11 * time.Second)
		p.publish(true, remove(a, 1, 2), store(a, 2, 3))
		synctest.Wait()
		require.EqualValues(t, 2, w.stats().Resyncs.Load())
		require.Equal(t, ingest.Live, w.stats().State())
	})
}

// TestOrphansWithoutHistory are to be expected, and no reason to start over.
func TestOrphansWithoutHistory(t *testing.T) {
	inWorld(t, ingest.Config{}, 1, func(w *world) {
		p := w.pubs[0]
		p.keep = 1
		p.publish(true, store(a, 0, 2))
		p.publish(true, store(b, 0, 2))
		w.up()
		for range 20 {
			w.after(5 * time.Second)
			p.publish(true, store(a, 2, 4))
		}
		synctest.Wait()
		require.EqualValues(t, []uint64{20, 1}, []uint64{
			w.stats().UnknownParents.Load(), w.stats().Resyncs.Load(),
		}, "unknown parents, resyncs")
		w.wantHeld(2, b, "kept")
	})
}

// TestBudget fills the index beyond its budget: blocks without room are counted apart, and are
// no reason to start over.
func TestBudget(t *testing.T) {
	inWorld(t, ingest.Config{ResyncEvery: 10 * time.Second}, 1, func(w *world) {
		w.index = radix.New(radix.Config{Seed: 1, MaxBytes: 1}) // the least there is
		w.m = ingest.NewManager(ingest.Config{ResyncEvery: 10 * time.Second, Log: slog.New(slog.DiscardHandler)}, w.index, w.net.subscribe, w.net.replay)
		p := w.pubs[0]
		w.up()
		const prompts, blocks = 120, 500
		for i := range prompts {
			p.publish(true, store(prompt(uint32(100+i), blocks), 0, blocks-1))
		}
		synctest.Wait()
		old, recent := prompt(100, blocks), prompt(100+prompts-1, blocks)
		w.wantHeld(0, old, "evicted")
		w.wantHeld(blocks-1, recent, "stored last")
		require.LessOrEqual(t, w.index.Stats().Bytes, w.index.Stats().MaxBytes)

		for range 20 {
			w.after(5 * time.Second)
			p.publish(true, store(old, blocks-1, blocks), remove(old, 3, 5))
		}
		synctest.Wait()
		require.EqualValues(t, []uint64{20, 40, 0, 0, 1}, []uint64{
			w.stats().BeyondBudget.Load(), w.stats().EvictedRemovals.Load(), w.stats().UnknownParents.Load(), w.stats().UnknownRemovals.Load(),
			w.stats().Resyncs.Load(),
		}, "beyond budget, evicted removals, unknown parents, unknown removals, resyncs")
		require.Equal(t, ingest.Live, w.stats().State())

		p.publish(true, cleared, store(old, 0, blocks))
		synctest.Wait()
		w.wantHeld(blocks, old, "after the rank was cleared all starts anew")
	})
}

// TestSaltsComeAndGo: tenants without blocks leave nothing behind, and those that come back
// find their place.
func TestSaltsComeAndGo(t *testing.T) {
	inWorld(t, ingest.Config{}, 1, func(w *world) {
		w.up()
		salted := func(ev kvevent.Event, i int) kvevent.Event {
			ev.CacheSalt = []byte("tenant-" + strconv.Itoa(i))
			return ev
		}
		const tenants = 2000 // twice as many domains as are kept
		for i := range tenants {
			w.pubs[0].publish(true, salted(store(a, 0, 4), i%(tenants-100)), remove(a, 0, 4))
		}
		synctest.Wait()
		require.Zero(t, w.stats().Malformed.Load()+w.stats().UnknownParents.Load()+w.stats().UnknownRemovals.Load())
		require.LessOrEqual(t, w.index.Stats().Domains, 1024)
		w.pubs[0].publish(true, salted(store(a, 0, 4), 7))
		synctest.Wait()
		require.Equal(t, 4, w.held(0, radix.DomainKey{Salt: "tenant-7"}, a))
	})
}
