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

// testCluster is sidecars and a router on a fake clock.
type testCluster struct {
	t     *testing.T
	bus   *bus
	rng   *rand.Rand
	index *directory.Index
	tiers map[string]*fakeTier
	stops map[string]func()
	nodes map[string]uint32
	all   sync.WaitGroup
}

// inCluster runs f on a fake clock.
func inCluster(t *testing.T, cfg directory.Config, f func(w *testCluster)) {
	t.Helper()
	bubbletest.Test(t, func(t *testing.T) {
		w := &testCluster{
			t: t, bus: newBus(), rng: rand.New(rand.NewPCG(1, 2)), tiers: map[string]*fakeTier{}, stops: map[string]func(){}, nodes: map[string]uint32{},
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

// start runs a node's announcer in place of the former one.
func (w *testCluster) start(name string, s *fakeTier) {
	w.stop(name)
	ctx, stop := context.WithCancel(context.Background())
	a := announce.New(announce.Config{Node: name, Bus: w.bus, Source: s, Log: quiet})
	done := make(chan struct{})
	go func() {
		a.Run(ctx)
		close(done)
	}()
	w.tiers[name] = s
	w.stops[name] = func() {
		stop()
		<-done
	}
}

func (w *testCluster) stop(name string) {
	if end := w.stops[name]; end != nil {
		end()
		delete(w.stops, name)
		delete(w.tiers, name)
	}
}

// list sets the nodes of the cluster.
func (w *testCluster) list(names ...string) {
	w.nodes = map[string]uint32{}
	for i, name := range names {
		w.nodes[name] = uint32(i + 1)
	}
	w.index.SetNodes(w.nodes)
}

// want returns the expected result of Stored, by a full scan.
func (w *testCluster) want(a routing.TierQuery) []routing.TierMatch {
	var list []routing.TierMatch
	holds := map[int]bool{}
	for name, s := range w.tiers {
		if w.nodes[name] == 0 {
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
			match := routing.TierMatch{Place: w.nodes[name], Tokens: n * k.PageSize, Kind: uint32(k.ID ^ k.ID>>32), Open: k.Open && opened == 1}
			if n > 0 || match.Open {
				list = append(list, match)
			}
		}
	}
	if len(holds) == 0 || !holds[pageOf(a.Model)] || a.LoRA != "" {
		return nil
	}
	return sorted(list)
}

// pageOf returns the page size of a model in these tests.
func pageOf(model string) int {
	n, _ := strconv.Atoi(model)
	return n
}

func sorted(list []routing.TierMatch) []routing.TierMatch {
	slices.SortFunc(list, func(a, b routing.TierMatch) int {
		return cmp.Or(cmp.Compare(a.Place, b.Place), cmp.Compare(a.Kind, b.Kind))
	})
	return list
}

// settle waits until the router knows all contents.
func (w *testCluster) settle() {
	for range 600 {
		time.Sleep(time.Second)
		synctest.Wait()
		known := 0
		for _, n := range w.index.Status().Nodes {
			if n.Known && w.tiers[n.Name] != nil {
				known++
			}
		}
		if known == len(w.tiers) {
			time.Sleep(25 * time.Second) // two idle intervals: all reports arrive
			return
		}
	}
	w.t.Fatal("not all is known after ten minutes")
}

// prompt returns a branching prompt: one of 3 beginnings of 100 tokens, one of 5 continuations,
// and an own end.
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

// churn stores a part of a prompt at a node, and evicts some of its pages.
func (w *testCluster) churn(s *fakeTier) {
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

// After any order of stores, evictions, losses, restarts and kills, a router knows exactly the
// pages that each node holds.
func TestIndexAgainstNaive(t *testing.T) {
	inCluster(t, directory.Config{}, func(w *testCluster) {
		t := w.t
		w.bus.with(func() { w.bus.loss = 0.2 })
		names := []string{"a", "b", "c", "d", "e"}
		w.list(names...)
		for _, name := range names {
			w.start(name, newFakeTier(kinds()...))
		}
		found, churned := 0, uint64(0)
		const rounds = 6
		for range rounds {
			for range 30 {
				name := names[w.rng.IntN(len(names))]
				s := w.tiers[name]
				switch n := w.rng.IntN(100); {
				case s == nil && n < 50:
					w.start(name, newFakeTier(kinds()...)) // with nothing
				case s == nil:
				case n < 2:
					w.stop(name)
				case n < 4:
					w.start(name, newFakeTier(kinds()...))
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
					w.churn(s)
					churned++
					rng := rand.New(rand.NewPCG(churned, 1))
					s.during(func() { // and while the router reads
						s.set(0, proto.PageHashes(prompt(rng), 4, "")[0], true)
						if held := s.pages(0); len(held) > 0 {
							s.set(0, held[len(held)/2], false)
						}
					})
				}
				time.Sleep(time.Duration(w.rng.IntN(300)) * time.Millisecond)
			}
			w.list(names...)
			// Those that ended are forgotten when the cluster does not list them, or after their
			// silence.
			time.Sleep(time.Minute)
			w.bus.with(func() { w.bus.loss = 0 }) // else the last changes are known only in the end
			for _, s := range w.tiers {
				s.during(nil)
			}
			w.settle()
			found += w.compare(20)
			w.bus.with(func() { w.bus.loss = 0.2 })
		}
		require.Greater(t, found, 8*rounds, "nothing is held, and nothing was shown")
		st := w.index.Status()
		require.Positive(t, st.Gaps)
		require.Positive(t, st.CaughtUp)
		require.Positive(t, st.Failed)
		require.Greater(t, st.Resyncs, uint64(10))
		require.Positive(t, st.Remembered)
		require.Zero(t, st.Malformed)
		require.Zero(t, st.LeftOut)
	})
}

// compare looks up prompts, and returns the number that some tier holds.
func (w *testCluster) compare(n int) (found int) {
	w.t.Helper()
	var got []routing.TierMatch
	for range n {
		a := routing.TierQuery{Model: []string{"4", "16", "8"}[w.rng.IntN(3)], Tokens: prompt(w.rng), Salt: []string{"", "", "tenant"}[w.rng.IntN(3)]}
		if w.rng.IntN(10) == 0 {
			a.LoRA = "adapter"
		}
		want := w.want(a)
		if len(want) > 0 {
			found++
		}
		for range 2 { // and as it is remembered
			got = w.index.Stored(got[:0], a)
			require.Equal(w.t, append([]routing.TierMatch{}, want...), append([]routing.TierMatch{}, sorted(got)...), "model %s, %d tokens, salt %q", a.Model, len(a.Tokens), a.Salt)
		}
	}
	return found
}
