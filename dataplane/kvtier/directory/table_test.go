package directory

import (
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/kvtier/announce"
	"github.com/warmpath/warmpath/dataplane/kvtier/proto"
	"github.com/warmpath/warmpath/dataplane/routing"
)

// FuzzTable plays a script on a small table and on a map, which must have the same holders after
// any number of copies.
func FuzzTable(f *testing.F) {
	f.Add([]byte("some pages come, and some of them go again"))
	f.Add([]byte{0, 0, 0, 0, 0, 1, 255, 255, 254, 7, 8, 9})
	f.Fuzz(func(t *testing.T, script []byte) {
		const holders = 130
		rng := rand.New(rand.NewPCG(1, 1))
		tab, truth := newTable(0, 3, rng.Uint64()), map[uint64]map[int]bool{}
		for len(script) >= 3 {
			page, holder, what := uint64(script[0])*0x0101, int(script[1])%holders, script[2]
			script = script[3:]
			if truth[page] == nil {
				truth[page] = map[int]bool{}
			}
			switch {
			case what < 160:
				require.Equal(t, !truth[page][holder], tab.set(tab.insert(page), holder))
				truth[page][holder] = true
			case what < 240:
				if held := tab.find(page); held != nil {
					require.Equal(t, truth[page][holder], tab.clear(held, holder))
				} else {
					require.Empty(t, truth[page])
				}
				delete(truth[page], holder)
			case what < 248:
				tab.removeHolder(holder)
				for _, by := range truth {
					delete(by, holder)
				}
			default:
				next := newTable(tab.slots(), 3, rng.Uint64())
				require.True(t, tab.copyTo(next))
				tab = next
			}
		}
		live := 0
		for page, by := range truth {
			if len(by) > 0 {
				live++
			}
			held := tab.find(page)
			for holder := range holders {
				require.Equal(t, by[holder], held != nil && held[holder/64]>>(holder%64)&1 == 1)
			}
		}
		require.Equal(t, live, tab.used-tab.unheld)
	})
}

// oneNode makes an index that has learnt one node. A fixed seed places its pages: how many of them
// find a slot near each other depends on it.
func oneNode(maxBytes int) (*Index, *node, []proto.Kind) {
	x := New(Config{MaxBytes: maxBytes, Seed: 1})
	n := &node{name: "a", known: true}
	x.contents.nodes["a"] = n
	x.SetNodes(map[string]uint32{"a": 1})
	return x, n, []proto.Kind{{ID: 1, Model: "m", PageSize: 1, Open: true}}
}

// Pages without room are left out and counted, and removed pages make room again.
func TestMemoryIsBounded(t *testing.T) {
	const bound = 1 << 20 // 65,536 slots
	x, n, kinds := oneNode(bound)
	m := announce.Report{Type: announce.TypeChanges, Kinds: kinds}
	for i := range 100_000 {
		m.Changes = append(m.Changes, proto.Change{Page: uint64(i+1) << 20})
	}
	x.contents.apply(n, &m)
	st := x.Status()
	require.LessOrEqual(t, x.contents.table.bytes(), bound)
	require.EqualValues(t, 100_000-st.Pages, st.LeftOut)
	require.Greater(t, st.Pages, 50_000)
	require.Equal(t, st.Pages, st.Nodes[0].Pages)
	for i := range m.Changes {
		m.Changes[i].Removed = i%2 == 0
	}
	m.Changes = m.Changes[:60_000]
	x.contents.apply(n, &m)
	for i := range m.Changes {
		m.Changes[i] = proto.Change{Page: uint64(i+1) << 40}
	}
	m.Changes = m.Changes[:20_000]
	x.contents.apply(n, &m)
	require.Equal(t, st.LeftOut, x.Status().LeftOut, "there is room again")
	for i := range m.Changes {
		held := x.contents.table.find(m.Changes[i].Page)
		require.True(t, held != nil && held[0] == 1)
	}
	// A node that is gone gives its memory back.
	x.SetNodes(map[string]uint32{"b": 1})
	st = x.Status()
	require.Zero(t, st.Pages)
	require.Less(t, x.contents.table.bytes(), bound/8)
	require.Nil(t, x.contents.view.Load())
}

// More nodes than a word has bits are told apart, up to maxHolders.
func TestManyNodes(t *testing.T) {
	x := New(Config{})
	nodes := map[string]uint32{}
	prompt := ids(1, 64)
	pages := proto.PageHashes(prompt, 1, "")
	for i := range maxHolders + 10 {
		name := strconv.Itoa(i)
		nodes[name] = uint32(i + 1)
		n := &node{name: name, known: true}
		x.contents.nodes[name] = n
		m := announce.Report{Type: announce.TypeChanges, Kinds: []proto.Kind{{ID: 1, Model: "m", PageSize: 1, Open: true}}}
		for _, h := range pages[:1+i%len(pages)] {
			m.Changes = append(m.Changes, proto.Change{Page: h.Name()})
		}
		x.contents.apply(n, &m)
	}
	x.SetNodes(nodes)
	got := x.Stored(nil, routing.TierQuery{Model: "m", Tokens: prompt})
	require.Len(t, got, maxHolders)
	for _, s := range got {
		require.Equal(t, 1+int(s.Place-1)%len(pages), s.Tokens, "place %d", s.Place)
	}
	require.EqualValues(t, 10, x.Status().Unkept)
}

// Lookups run beside changes, and never find a page that no tier held.
func TestLookupsBesideChanges(t *testing.T) {
	x, n, kinds := oneNode(0)
	x.contents.maxBytes = 64 << 20
	known, never := ids(1, 600), ids(2, 600)
	m := announce.Report{Type: announce.TypeChanges, Kinds: kinds}
	for _, h := range proto.PageHashes(known, 1, "") {
		m.Changes = append(m.Changes, proto.Change{Page: h.Name()})
	}
	x.mu.Lock()
	x.contents.apply(n, &m)
	x.mu.Unlock()
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			var dst []routing.TierMatch
			for {
				select {
				case <-stop:
					return
				default:
				}
				dst = x.Stored(dst[:0], routing.TierQuery{Model: "m", Tokens: known})
				if len(dst) != 1 || dst[0].Tokens != len(known) {
					t.Errorf("%v of a prompt that is held all the time", dst)
					return
				}
				if dst = x.Stored(dst[:0], routing.TierQuery{Model: "m", Tokens: never}); len(dst) != 0 {
					t.Errorf("%v of a prompt that nobody has", dst)
					return
				}
			}
		})
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for range 100 { // many tables, one after the other
		var more announce.Report
		more.Type, more.Kinds = announce.TypeChanges, kinds
		for range 500 {
			more.Changes = append(more.Changes, proto.Change{Page: rng.Uint64(), Removed: rng.IntN(3) == 0})
		}
		x.mu.Lock()
		x.contents.apply(n, &more)
		x.mu.Unlock()
	}
	close(stop)
	readers.Wait()
}

// A lookup ends after bounded work; the next ones of the prompt get further.
func TestLookupsAreBounded(t *testing.T) {
	for _, page := range []int{1, 16} {
		x := stocked(t, 1, 0, page, ids(1, 100_000))
		ask := routing.TierQuery{Model: "m", Tokens: ids(1, 100_000)}
		last, rounds := 0, 0
		for ; rounds < 20; rounds++ {
			before := x.Status().Hashed
			got := x.Stored(nil, ask)
			require.Len(t, got, 1)
			require.LessOrEqual(t, x.Status().Hashed-before, uint64(maxHashed/pageCost+maxSegment))
			require.GreaterOrEqual(t, got[0].Tokens, last)
			if got[0].Tokens == last {
				break
			}
			last = got[0].Tokens
		}
		require.Equal(t, min(100_000, maxPages*page), last, "page %d after %d look-ups", page, rounds)
		require.Greater(t, rounds, 1)
	}
}

// A prompt that differs from a remembered one in one token is another prompt.
func TestHashCacheIsExact(t *testing.T) {
	const page = 16
	known := ids(3, 1024)
	x := stocked(t, 1, 0, page, known)
	ask := func(ids []uint32) int {
		got := x.Stored(nil, routing.TierQuery{Model: "m", Tokens: ids})
		if len(got) == 0 {
			return 0
		}
		return got[0].Tokens
	}
	require.Equal(t, len(known), ask(known))
	before := x.Status()
	require.Equal(t, len(known), ask(known))
	require.Equal(t, before.Hashed, x.Status().Hashed, "all is remembered")
	for i := range known {
		other := append([]uint32(nil), known...)
		other[i]++
		require.Equal(t, i/page*page, ask(other), "token %d is another one", i)
	}
	// The same stretch after another one is not the same.
	require.Zero(t, ask(known[512:]))
	require.Equal(t, 512, ask(append(known[:512:512], known[:512]...)))
}
