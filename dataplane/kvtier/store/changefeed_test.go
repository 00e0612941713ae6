package store

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/kvtier/proto"
)

// spaceOfRank is a name as the backend in integrations/sglang writes it.
func spaceOfRank(t testing.TB, model, rank, pp, pool, dtype string) string {
	t.Helper()
	text, err := json.Marshal(map[string]any{
		"model": model, "rank": rank, "pp": pp, "cp": "0/1", "pool": pool, "form": "layer_first", "dtype": dtype, "tokens": testTokens, "layers": 3,
		"heads": 2, "own": "",
	})
	require.NoError(t, err)
	return string(text)
}

// newFeedTier makes a tier that does not run.
func newFeedTier(t testing.TB) *Store {
	t.Helper()
	tier, err := New(Config{Bytes: minBytes})
	require.NoError(t, err)
	t.Cleanup(func() { tier.Close() })
	return tier
}

// put stores a chain of pages.
func put(t testing.TB, tier *Store, ns uint32, hashes ...proto.Hash) {
	t.Helper()
	set, _ := tier.pages.reserve(ns, hashes, nil, nil, false)
	set.commit()
}

func mustSpace(t testing.TB, tier *Store, name string, bytes int) uint32 {
	t.Helper()
	ns, err := tier.pages.namespace(name, bytes)
	require.NoError(t, err)
	return ns
}

// held is a page of a kind.
type held struct {
	kind uint64
	page uint64
}

// follower keeps the contents of a store from its feed.
type follower struct {
	t    testing.TB
	tier *Store
	room int
	at   proto.Position
	set  map[held]bool
	read int // times that all was read
}

func (f *follower) apply(list []proto.Change) {
	kinds := f.tier.ChangeFeed().Kinds()
	for _, c := range list {
		if h := (held{kinds[c.Kind].ID, c.Page}); c.Removed {
			delete(f.set, h)
		} else {
			f.set[h] = true
		}
	}
}

// follow reads the feed to its end, and calls between after each part.
func (f *follower) follow(between func()) {
	for {
		list, next, now, ok := f.tier.ChangeFeed().Changes(make([]proto.Change, 0, f.room), f.at)
		if !ok {
			f.read++
			f.at, f.set = now, map[held]bool{}
			for place := 0; place >= 0; {
				list, place = f.tier.ChangeFeed().Contents(make([]proto.Change, 0, f.room), place)
				f.apply(list)
				between()
			}
			continue
		}
		f.apply(list)
		if f.at = next; next == now {
			return
		}
	}
}

// truth returns the contents of a store by a full scan: a page counts where all namespaces of its
// kind hold it.
func truth(tier *Store, kinds map[uint64][]uint32) map[held]bool {
	tier.pages.mu.Lock()
	defer tier.pages.mu.Unlock()
	all := map[held]bool{}
	for kind, members := range kinds {
		for k := range tier.pages.index.table.byKey {
			whole := true
			for _, ns := range members {
				whole = whole && tier.pages.index.table.find(key{ns, k.hash}) != none
			}
			if whole {
				all[held{kind, k.hash.Name()}] = true
			}
		}
	}
	return all
}

// A reader of the feed knows the contents after any changes, with engines of one rank, of two
// ranks, of two stages and a second pool, and with a model whose pages are equal on all ranks.
func TestFeedTellsWhatIsHeld(t *testing.T) {
	const bytes = 64 << 10
	tier := newFeedTier(t)
	names := [][]string{
		{spaceOfRank(t, "one", "0/1", "0/1", "kv", "bf16")},
		{spaceOfRank(t, "two", "0/2", "0/1", "kv", "bf16"), spaceOfRank(t, "two", "1/2", "0/1", "kv", "bf16")},
		{
			spaceOfRank(t, "deep", "0/1", "0/2", "index", "int8"), spaceOfRank(t, "deep", "0/1", "0/2", "kv", "bf16"), spaceOfRank(t, "deep", "0/1", "1/2", "kv", "bf16"),
			spaceOfRank(t, "deep", "0/1", "1/2", "index", "int8"),
		},
		{spaceOfRank(t, "mla", "all", "0/1", "kv", "bf16")},
	}
	strange := mustSpace(t, tier, "not JSON", bytes)
	var spaces [][]uint32
	members := map[uint64][]uint32{}
	for i, list := range names {
		spaces = append(spaces, nil)
		for _, name := range list {
			spaces[i] = append(spaces[i], mustSpace(t, tier, name, bytes))
		}
		members[tier.ChangeFeed().Kinds()[i].ID] = spaces[i]
	}
	if n := len(tier.ChangeFeed().Kinds()); n != len(names) || len(members) != len(names) {
		t.Fatalf("%d kinds and %d names for %d engines", n, len(members), len(names))
	}
	for _, room := range []int{1, 7, 4096} {
		rng := rand.New(rand.NewPCG(uint64(room), 1))
		f := &follower{t: t, tier: tier, room: room, set: map[held]bool{}}
		f.at, _ = tier.ChangeFeed().Subscribe()
		f.at.Epoch-- // nothing is known yet
		seen, told := 0, 0
		step := func() {
			engine := rng.IntN(len(spaces))
			h := chain(uint32(rng.IntN(8)), 1+rng.IntN(3))
			for _, ns := range spaces[engine] {
				if rng.IntN(8) > 0 {
					put(t, tier, ns, h...)
				}
			}
			if rng.IntN(4) == 0 {
				put(t, tier, strange, h...)
			}
		}
		for range 400 {
			for range rng.IntN(4) {
				step()
			}
			f.follow(func() {
				if rng.IntN(20) == 0 {
					step()
				}
			})
			want := truth(tier, members)
			if !maps.Equal(f.set, want) {
				t.Fatalf("room %d: known are %d pages, and held %d", room, len(f.set), len(want))
			}
			seen += len(want)
			told++
		}
		if seen < 2*told || f.read != 1 {
			t.Errorf("room %d: %d pages in %d looks, and all was read %d times: nothing was shown", room, seen, told, f.read)
		}
	}
}

// A rank that joins later makes pages of the other ranks useless until it has them too.
func TestFeedOfARankThatComesLater(t *testing.T) {
	const bytes = 64 << 10
	tier := newFeedTier(t)
	first := mustSpace(t, tier, spaceOfRank(t, "m", "0/2", "0/1", "kv", "bf16"), bytes)
	f := &follower{t: t, tier: tier, room: 100, set: map[held]bool{}}
	f.at, _ = tier.ChangeFeed().Subscribe()
	pages := chain(1, 3)
	put(t, tier, first, pages...)
	f.follow(func() {})
	if len(f.set) != 3 {
		t.Fatalf("%d pages of the only rank, want 3", len(f.set))
	}
	second := mustSpace(t, tier, spaceOfRank(t, "m", "1/2", "0/1", "kv", "bf16"), bytes)
	put(t, tier, second, pages[0])
	f.follow(func() {})
	if id := tier.ChangeFeed().Kinds()[0].ID; len(f.set) != 1 || !f.set[held{id, pages[0].Name()}] || f.read != 1 {
		t.Errorf("known are %v after the second rank came", f.set)
	}
	if n := len(tier.ChangeFeed().Kinds()); n != 1 {
		t.Errorf("%d kinds, want 1", n)
	}
}

// Engines read each other's pages only where all of their form is equal.
func TestFeedKindsAreForms(t *testing.T) {
	tier, other := newFeedTier(t), newFeedTier(t)
	names := []string{
		spaceOfRank(t, "m", "0/1", "0/1", "kv", "bf16"), spaceOfRank(t, "m", "0/1", "0/1", "kv", "fp8"), spaceOfRank(t, "m", "0/2", "0/1", "kv", "bf16"),
		spaceOfRank(t, "n", "0/1", "0/1", "kv", "bf16"), spaceOfRank(t, "m", "0/1", "0/2", "kv", "bf16"),
	}
	seen := map[uint64]bool{}
	for i, name := range names {
		mustSpace(t, tier, name, 4096)
		seen[tier.ChangeFeed().Kinds()[i].ID] = true
	}
	if len(seen) != len(names) {
		t.Errorf("%d kinds of %d forms", len(seen), len(names))
	}
	mustSpace(t, other, names[2], 4096)
	if other.ChangeFeed().Kinds()[0].ID != tier.ChangeFeed().Kinds()[2].ID {
		t.Error("one form has two names on two nodes")
	}
	mustSpace(t, other, spaceOfRank(t, "m", "1/2", "0/1", "kv", "bf16"), 4096)
	if n := len(other.ChangeFeed().Kinds()); n != 1 {
		t.Errorf("two ranks of one engine are %d kinds", n)
	}
}

// A reader that is too far behind is told so, and the log is bounded.
func TestFeedForgets(t *testing.T) {
	tier := newFeedTier(t)
	ns := mustSpace(t, tier, spaceOfRank(t, "m", "0/1", "0/1", "kv", "bf16"), 64<<10)
	put(t, tier, ns, chain(0, 10)...)
	if _, _, now, ok := tier.ChangeFeed().Changes(nil, proto.Position{}); ok || now.Number != 0 {
		t.Error("changes are remembered for nobody")
	}
	at, news := tier.ChangeFeed().Subscribe()
	for i := range uint32(keptChanges/2 + 100) { // each goes for another one
		put(t, tier, ns, chain(i+1, 1)...)
	}
	select {
	case <-news:
	default:
		t.Error("nothing was said of changes")
	}
	if _, _, _, ok := tier.ChangeFeed().Changes(make([]proto.Change, 0, 1), at); ok {
		t.Error("more is remembered than there is room for")
	}
	_, _, now, _ := tier.ChangeFeed().Changes(nil, at)
	at.Number = now.Number - keptChanges
	if list, next, _, ok := tier.ChangeFeed().Changes(make([]proto.Change, 0, 10), at); !ok || len(list) != 10 || next.Number != at.Number+10 {
		t.Errorf("%d changes from the oldest on, %v", len(list), ok)
	}
}

// An engine that connects and leaves opens its kind and closes it.
func TestFeedKnowsWhoIsThere(t *testing.T) {
	tier := serve(t, Config{})
	_, news := tier.ChangeFeed().Subscribe()
	name := spaceOfRank(t, "m", "0/1", "0/1", "kv", "bf16")
	a, b := dialTier(t, tier, name), dialTier(t, tier, name)
	open := func() bool { return tier.ChangeFeed().Kinds()[0].Open }
	if !open() {
		t.Error("closed, with two connections")
	}
	a.conn.Close()
	eventually(t, "one connection to end", func() bool { return tier.Stats().Clients == 1 })
	if !open() {
		t.Error("closed, with a connection")
	}
	<-news
	b.conn.Close()
	eventually(t, "the kind to close", func() bool { return !open() })
	<-news
}
