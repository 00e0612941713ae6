package directory_test

import (
	"cmp"
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/bubbletest"
	"github.com/warmpath/warmpath/dataplane/kvtier/announce"
	"github.com/warmpath/warmpath/dataplane/kvtier/directory"
	"github.com/warmpath/warmpath/dataplane/kvtier/proto"
	"github.com/warmpath/warmpath/dataplane/routing"
)

var quiet = slog.New(slog.DiscardHandler)

// town is sidecars and a router, with time of their own.
type town struct {
	t      *testing.T
	bus    *bus
	rng    *rand.Rand
	index  *directory.Index
	shops  map[string]*shop
	stops  map[string]func()
	places map[string]uint32
	all    sync.WaitGroup
}

// inTown runs f in a bubble of its own time.
func inTown(t *testing.T, cfg directory.Config, f func(w *town)) {
	t.Helper()
	bubbletest.Test(t, func(t *testing.T) {
		w := &town{
			t: t, bus: newBus(), rng: rand.New(rand.NewPCG(1, 2)), shops: map[string]*shop{}, stops: map[string]func(){}, places: map[string]uint32{},
		}
		cfg.Bus, cfg.Log = w.bus, quiet
		w.index = directory.New(cfg)
		ctx, stop := context.WithCancel(context.Background())
		w.all.Go(func() { _ = w.index.Run(ctx) })
		t.Cleanup(func() {
			stop()
			for _, end := range w.stops {
				end()
			}
			w.all.Wait()
			time.Sleep(time.Minute) // messages on their way arrive
		})
		f(w)
	})
}

// start runs a node's announcer, in place of the one that was there.
func (w *town) start(name string, s *shop) {
	w.stop(name)
	ctx, stop := context.WithCancel(context.Background())
	a := announce.New(announce.Config{Node: name, Bus: w.bus, Source: s, Log: quiet})
	done := make(chan struct{})
	go func() {
		a.Run(ctx)
		close(done)
	}()
	w.shops[name] = s
	w.stops[name] = func() {
		stop()
		<-done
	}
}

func (w *town) stop(name string) {
	if end := w.stops[name]; end != nil {
		end()
		delete(w.stops, name)
		delete(w.shops, name)
	}
}

// list has the cluster list these nodes.
func (w *town) list(names ...string) {
	w.places = map[string]uint32{}
	for i, name := range names {
		w.places[name] = uint32(i + 1)
	}
	w.index.SetNodes(w.places)
}

// want is what Stored should say, by a look at everything.
func (w *town) want(a routing.Asked) []routing.Shelf {
	var list []routing.Shelf
	holds := map[int]bool{}
	for name, s := range w.shops {
		if w.places[name] == 0 {
			continue
		}
		opened := 0
		for _, k := range s.Kinds() {
			if k.Open && k.Model == a.Model {
				opened++
			}
		}
		for i, k := range s.Kinds() {
			if k.Model != a.Model {
				continue
			}
			n := 0
			for _, h := range proto.PageHashes(a.Tokens, k.PageSize, a.Salt) {
				if !s.has(i, h) {
					break
				}
				n++
			}
			holds[k.PageSize] = holds[k.PageSize] || n > 0
			shelf := routing.Shelf{Place: w.places[name], Tokens: n * k.PageSize, Kind: uint32(k.ID ^ k.ID>>32), Open: k.Open && opened == 1}
			if n > 0 || shelf.Open {
				list = append(list, shelf)
			}
		}
	}
	if len(holds) == 0 || !holds[pageOf(a.Model)] || a.LoRA != "" {
		return nil
	}
	return sorted(list)
}

// pageOf is the page size of a model in these tests.
func pageOf(model string) int {
	n, _ := strconv.Atoi(model)
	return n
}

func sorted(list []routing.Shelf) []routing.Shelf {
	slices.SortFunc(list, func(a, b routing.Shelf) int {
		return cmp.Or(cmp.Compare(a.Place, b.Place), cmp.Compare(a.Kind, b.Kind))
	})
	return list
}

// settle waits until all is known.
func (w *town) settle() {
	for range 600 {
		time.Sleep(time.Second)
		synctest.Wait()
		known := 0
		for _, n := range w.index.Status().Nodes {
			if n.Known && w.shops[n.Name] != nil {
				known++
			}
		}
		if known == len(w.shops) {
			time.Sleep(25 * time.Second) // two rests: whatever is told is heard
			return
		}
	}
	w.t.Fatal("not all is known after ten minutes")
}

// prompts of these tests branch: they begin with the same 100 tokens of 3, go on with one of 5 and end of their own.
func prompt(rng *rand.Rand) []uint32 {
	a, b, c := uint32(rng.IntN(3)), uint32(rng.IntN(5)), uint32(rng.IntN(6))
	ids := make([]uint32, 100+rng.IntN(1200))
	for i := range ids {
		switch {
		case i < 100:
			ids[i] = a
		case i < 400:
			ids[i] = a<<8 | b<<4
		default:
			ids[i] = a<<8 | b<<4 | c + uint32(i)<<16
		}
	}
	return ids
}

func kinds() []proto.Kind {
	return []proto.Kind{{ID: 1 << 40, Model: "4", PageSize: 4, Open: true}, {ID: 2, Model: "16", PageSize: 16, Open: true}}
}

// live has a node store some of a prompt, and evict some of what it holds.
func (w *town) live(s *shop) {
	for kind, k := range kinds() {
		ids, salt := prompt(w.rng), [...]string{"", "", "tenant"}[w.rng.IntN(3)]
		pages := proto.PageHashes(ids, k.PageSize, salt)
		for _, p := range pages[:w.rng.IntN(len(pages)+1)] {
			s.set(kind, p, true)
		}
		if held := s.pages(kind); len(held) > 0 {
			for range w.rng.IntN(40) {
				s.set(kind, held[w.rng.IntN(len(held))], false)
			}
		}
	}
}

// Whatever is stored, evicted, lost, restarted, killed and started anew, a router knows in the end what each node holds, and nothing else.
func TestIndexAgainstNaive(t *testing.T) {
	inTown(t, directory.Config{}, func(w *town) {
		t := w.t
		w.bus.with(func() { w.bus.loss = 0.2 })
		names := []string{"a", "b", "c", "d", "e"}
		w.list(names...)
		for _, name := range names {
			w.start(name, newShop(kinds()...))
		}
		found := 0
		for range 12 {
			for range 30 {
				name := names[w.rng.IntN(len(names))]
				s := w.shops[name]
				switch n := w.rng.IntN(100); {
				case s == nil && n < 50:
					w.start(name, newShop(kinds()...)) // with nothing
				case s == nil:
				case n < 2:
					w.stop(name)
				case n < 4:
					w.start(name, newShop(kinds()...))
				case n < 5:
					w.start(name, s) // another process that holds the same
				case n < 7:
					s.mu.Lock()
					s.epoch++
					s.mu.Unlock()
				case n < 9:
					s.mu.Lock()
					s.keeps = []int{3, 1 << 20}[w.rng.IntN(2)]
					s.mu.Unlock()
				case n < 12:
					s.open(w.rng.IntN(2), w.rng.IntN(2) == 0)
				case n < 14:
					w.list(names[:3+w.rng.IntN(3)]...)
				default:
					w.live(s)
					s.during(func() { // and while the router reads
						s.set(0, proto.PageHashes(prompt(rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))), 4, "")[0], true)
						if held := s.pages(0); len(held) > 0 {
							s.set(0, held[len(held)/2], false)
						}
					})
				}
				time.Sleep(time.Duration(w.rng.IntN(300)) * time.Millisecond)
			}
			w.list(names...)
			// Those that ended are forgotten when the cluster does not list them, or after their silence.
			time.Sleep(time.Minute)
			w.bus.with(func() { w.bus.loss = 0 }) // else what changed last is known for sure only in the end
			for _, s := range w.shops {
				s.during(nil)
			}
			w.settle()
			found += w.compare(20)
			w.bus.with(func() { w.bus.loss = 0.2 })
		}
		require.Greater(t, found, 100, "nothing is held, and nothing was shown")
		st := w.index.Status()
		require.Positive(t, st.Gaps)
		require.Positive(t, st.CaughtUp)
		require.Positive(t, st.Failed)
		require.Greater(t, st.Resyncs, uint64(20))
		require.Positive(t, st.Remembered)
		require.Zero(t, st.Malformed)
		require.Zero(t, st.LeftOut)
	})
}

// compare asks for some prompts, and returns how many some tier knows.
func (w *town) compare(n int) (found int) {
	w.t.Helper()
	var got []routing.Shelf
	for range n {
		a := routing.Asked{Model: []string{"4", "16", "8"}[w.rng.IntN(3)], Tokens: prompt(w.rng), Salt: []string{"", "", "tenant"}[w.rng.IntN(3)]}
		if w.rng.IntN(10) == 0 {
			a.LoRA = "adapter"
		}
		want := w.want(a)
		got = w.index.Stored(got[:0], a)
		if len(want) > 0 {
			found++
		}
		require.Equal(w.t, append([]routing.Shelf{}, want...), append([]routing.Shelf{}, sorted(got)...), "model %s, %d tokens, salt %q", a.Model, len(a.Tokens), a.Salt)
	}
	return found
}
