package store

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/kvtier/proto"
)

// clear has the store drop all pages of the engine's model.
func (e *engine) clear() (pages uint64, told, missing uint32) {
	e.t.Helper()
	body := e.must(opClear, 0, binary.LittleEndian.AppendUint32(nil, uint32(patience.Milliseconds())))
	return binary.LittleEndian.Uint64(body), binary.LittleEndian.Uint32(body[8:]), binary.LittleEndian.Uint32(body[12:])
}

// retire tells the store that the engine has loaded other weights, and leaves.
func (e *engine) retire() {
	e.t.Helper()
	require.NoError(e.t, e.tell(opRetire, 0, nil))
	e.conn.Close()
}

// weightName names a rank of a model with some weights.
func weightName(model, weights, rank string) string {
	return fmt.Sprintf(`{"model":%q,"weights":%q,"rank":%q,"pp":"0/1","cp":"0/1","pool":"kv","tokens":%d}`, model, weights, rank, testTokens)
}

func TestClear(t *testing.T) {
	tier := serve(t, Config{})
	a, b := dialTier(t, tier, weightName("m", "1", "0/2")), dialTier(t, tier, weightName("m", "1", "1/2"))
	old, other := dialTier(t, tier, weightName("m", "0", "0/2")), dialTier(t, tier, weightName("n", "1", "0/2"))
	var hashes []proto.Hash
	for _, e := range []*engine{a, b, old, other} {
		hashes = e.store(1, 40)
	}
	unconfirmed, writer := chain(2, 4), dialTier(t, tier, weightName("m", "1", "1/2"))
	writer.set(unconfirmed, []uint64{0, 4, 8, 12}, nil, false)
	pages := b.get(hashes[:4], 0)
	lease := b.seq
	if n, told, missing := a.clear(); n != 120 || told != 0 || missing != 0 {
		t.Errorf("cleared %d pages and %d peers, %d are out of reach; want 120, 0 and 0", n, told, missing)
	}
	require.NoError(t, writer.tell(opCommit, 0, sequence(writer.seq)))
	writer.exists(nil, 0)
	for what, e := range map[string]*engine{"the same rank": a, "another rank": b, "other weights": old} {
		e.finds(what+", after a clear", 0, append(hashes, unconfirmed...), 0)
		e.finds(what+", being stored during a clear", 0, unconfirmed, 0)
	}
	other.reads("of another model", 40, 1, hashes, 0)
	b.store(3, poolTokens/testTokens)
	for i, page := range pages {
		if want := pageBytes(1<<32 + uint64(i)); string(page) != string(want) {
			t.Errorf("page %d was overwritten while it was read", i)
		}
	}
	require.NoError(t, b.tell(opRelease, 0, sequence(lease)))
	a.store(1, 40)
	a.reads("stored after the clear", 40, 1, hashes, 0)
	eventually(t, "no page stays that nobody finds", func() bool {
		return tier.Stats().Pages == 40+40+poolTokens/testTokens
	})
	tier.pages.mu.Lock()
	defer tier.pages.mu.Unlock()
	if x := tier.pages.index; x.spaces.discarded != 0 || len(x.spaces.byID) != len(x.spaces.byName) {
		t.Errorf("%d namespaces of %d names, %d of them discarded", len(x.spaces.byID), len(x.spaces.byName), x.spaces.discarded)
	}
}

func TestClearAtPeers(t *testing.T) {
	for name, fabric := range fabrics() {
		t.Run(name, func(t *testing.T) {
			a, b := pair(t, fabric())
			on, here := dialTier(t, a, weightName("m", "1", "0/1")), dialTier(t, b, weightName("m", "1", "0/1"))
			hashes := on.store(1, 60)
			here.finds("from the peer", 60, hashes, patience)
			here.reads("from the peer", 60, 1, hashes, patience)
			if _, told, missing := on.clear(); told != 1 || missing != 0 {
				t.Errorf("%d peers cleared, %d are out of reach; want 1 and 0", told, missing)
			}
			for what, e := range map[string]*engine{"here": on, "at the peer": here} {
				e.finds(what+", after a clear", 0, hashes, patience)
			}
			on.store(1, 30)
			here.finds("stored after the clear", 30, hashes, patience)
			here.reads("from the peer", 30, 1, hashes[:30], patience)
		})
	}
}

// A peer that was out of reach during a clear drops its pages before it gives any.
func TestClearOfAPeerOutOfReach(t *testing.T) {
	a, b := pair(t, nil)
	on, here := dialTier(t, a, weightName("m", "1", "0/1")), dialTier(t, b, weightName("m", "1", "0/1"))
	hashes := on.store(1, 20)
	here.store(1, 20)
	a.SetPeers(nil)
	b.SetPeers(nil)
	eventually(t, "they are apart", func() bool { return a.Stats().Peers == 0 && b.Stats().Peers == 0 })
	on.clear()
	here.reads("at a peer that has not heard of the clear", 20, 1, hashes, 0)
	meet(t, nil, a, b)
	for what, e := range map[string]*engine{"here": on, "at the peer": here} {
		e.finds(what+", after a clear", 0, hashes, patience)
	}
}

// A store that knows of other clears gets no pages, in either direction.
func TestPagesOfAnotherClear(t *testing.T) {
	tier := serve(t, Config{})
	e := dialTier(t, tier, weightName("m", "1", "0/1"))
	e.clear()
	hashes := e.store(1, 3)
	r, ok := tier.pages.request(tier.pages.current(weightName("m", "1", "0/1")))
	if !ok || r.stamp == 0 {
		t.Fatalf("after a clear: %+v, %t", r, ok)
	}
	for by, want := range map[int64]bool{-1: false, 0: true, 1: false} {
		ask := r
		ask.stamp = uint64(int64(r.stamp) + by)
		ns := tier.pages.requested(&ask)
		if known := ns != noNamespace; known != want || known && tier.pages.holds(ns, hashes) != 3 {
			t.Errorf("a peer whose last clear is %d away: namespace %d", by, ns)
		}
	}
	before := r.stamp
	e.clear()
	if r, _ := tier.pages.request(tier.pages.current(r.name)); r.stamp <= before {
		t.Errorf("a clear has the stamp %d after %d", r.stamp, before)
	}
}

// A change of weights leaves no pages behind, unless another engine uses the old ones.
func TestRetire(t *testing.T) {
	tier := serve(t, Config{})
	name := func(rank string) string { return weightName("m", "1", rank) }
	a, b := dialTier(t, tier, name("0/2")), dialTier(t, tier, name("1/2"))
	same := dialTier(t, tier, name("0/2"))
	hashes := a.store(1, 10)
	b.store(1, 10)
	a.retire()
	b.retire()
	eventually(t, "they have left", func() bool { return tier.Stats().Clients == 1 })
	same.reads("for the engine that keeps its weights", 10, 1, hashes, 0)
	same.conn.Close() // an engine that ends, and may come back
	eventually(t, "it has left", func() bool { return tier.Stats().Clients == 0 })
	if n := tier.Stats().Pages; n != 20 {
		t.Errorf("%d of 20 pages after the last engine ended", n)
	}
	again := dialTier(t, tier, name("0/2"))
	again.reads("for an engine that has come back", 10, 1, hashes, 0)
	again.retire()
	eventually(t, "nothing is left", func() bool { return tier.Stats().Pages == 0 && tier.Stats().Namespaces == 0 })
}

// Namespaces come and go with pages in them, and the feed stays equal to the contents.
func TestNamespacesMakeRoom(t *testing.T) {
	tier := newFeedTier(t)
	f := &follower{t: t, tier: tier, room: 100, set: map[held]bool{}}
	f.at, _ = tier.ChangeFeed().Subscribe()
	keep := spaceOfRank(t, "kept", "0/1", "0/1", "kv", "bf16")
	ns, err := tier.pages.open(keep, 4096)
	require.NoError(t, err)
	put(t, tier, ns, chain(1, 2)...)
	for i := range uint32(300) {
		name := weightName("m", strconv.FormatUint(uint64(i), 10), "0/1")
		ns, err := tier.pages.open(name, 4096)
		require.NoError(t, err)
		put(t, tier, ns, chain(i+2, 2)...)
		tier.pages.closeConnection(name, i%3 == 0)
		if i%100 == 0 {
			f.follow(func() {})
		}
	}
	f.follow(func() {})
	tier.pages.collect()
	kinds := map[uint64][]uint32{}
	tier.pages.mu.Lock()
	x := tier.pages.index
	for _, k := range x.changes.kinds {
		if len(k.members) > 0 {
			kinds[k.ID] = k.members
		}
	}
	names, spaces, live := len(x.spaces.byName), len(x.spaces.byID), x.changes.liveKinds()
	tier.pages.mu.Unlock()
	if names > usualKinds || spaces != names || live != names || len(x.changes.kinds) > usualKinds+1 {
		t.Errorf("%d names, %d namespaces and %d kinds in %d places, want %d at most", names, spaces, live, len(x.changes.kinds), usualKinds)
	}
	want := truth(tier, kinds)
	if len(want) == 0 || len(f.set) != len(want) {
		t.Errorf("%d pages are known, %d are held", len(f.set), len(want))
	}
	for h := range want {
		if !f.set[h] {
			t.Errorf("page %x of kind %x is not known", h.page, h.kind)
		}
	}
	if n := tier.engines.lookup(tier.pages.current(keep), chain(1, 2)); n != 2 {
		t.Errorf("%d of 2 pages of the engine that stayed", n)
	}
}

// FuzzClearAgainstNaive plays stores, reads, clears and retirements in any order: a page is found
// if and only if it was published since the last clear of its name, and all slots become free in
// the end.
func FuzzClearAgainstNaive(f *testing.F) {
	f.Add([]byte{0, 1, 2, 64, 65, 192, 0, 128, 200, 130, 210, 64})
	f.Add([]byte("pages are stored, read and cleared in any order"))
	f.Fuzz(func(t *testing.T, script []byte) {
		const size, slabs, hashes = minSlab / 16, 3, 8 // 48 pages, of which 16 are used
		x := newIndex(slabs, minSlab)
		names := []string{"m", weightName("n", "1", "0/1")}
		spaces := make([]uint32, len(names))
		for i, name := range names {
			spaces[i], _ = x.spaces.get(name, size)
			x.spaces.open(name)
		}
		type writing struct {
			at key
			e  int32
		}
		var filling []writing
		pins := map[int32]int{}
		want := map[key]bool{}
		stamp := uint64(0)
		for _, b := range script {
			i := int(b) & 1
			ns := x.spaces.byName[names[i]]
			k := key{ns, proto.Hash{b >> 1 & (hashes - 1)}}
			switch b >> 5 {
			case 0, 1:
				store(x, k)
				if x.table.find(k) != none {
					want[k] = true
				}
			case 2:
				if e, _ := x.reserve(ns, k.hash, false); e != none {
					filling = append(filling, writing{k, e})
				}
			case 3:
				for _, w := range filling {
					x.publish(w.at.ns, []proto.Hash{w.at.hash}, []int32{w.e}, nil)
					want[w.at] = true
				}
				filling = nil
			case 4:
				if e := x.table.find(k); e != none {
					x.pin(e)
					pins[e]++
				}
			case 5:
				for e, n := range pins {
					for range n {
						x.unpin(e)
					}
				}
				clear(pins)
			case 6:
				stamp++
				x.spaces.clear(x.spaces.byID[ns].model, stamp)
			case 7:
				for at := 0; at >= 0; at = x.collect(at) {
				}
			}
			for i, name := range names {
				ns := x.spaces.byName[name]
				for h := range byte(hashes) {
					k := key{ns, proto.Hash{h}}
					if got := x.spaces.serves(ns) && x.table.find(k) != none; got != want[k] {
						t.Fatalf("page %d of name %d: %t, want %t", h, i, got, want[k])
					}
				}
			}
		}
		for _, w := range filling {
			x.drop(w.e)
		}
		for e, n := range pins {
			for range n {
				x.unpin(e)
			}
		}
		for i, name := range names {
			x.spaces.clear(x.spaces.byID[x.spaces.byName[name]].model, stamp+1+uint64(i))
			x.spaces.close(name, true)
		}
		for at := 0; at >= 0; at = x.collect(at) {
		}
		if len(x.table.byKey) != 0 || len(x.spaces.byID) != 0 || len(x.spaces.byName) != 0 || x.spaces.discarded != 0 || x.stats.used != 0 || x.stats.pinned != 0 {
			t.Errorf("at the end: %d pages, %d namespaces, %d names, %d discarded, %+v", len(x.table.byKey), len(x.spaces.byID), len(x.spaces.byName), x.spaces.discarded, x.stats)
		}
	})
}

func TestClearsAreBounded(t *testing.T) {
	tier := newFeedTier(t)
	tier.pages.adopt(clears{"far ahead": uint64(time.Now().Add(2 * maxClearSkew).UnixNano())})
	if len(tier.pages.adopt(nil)) != 0 {
		t.Error("a clear of the day after tomorrow is believed")
	}
	for i := range maxNamespaces + 100 {
		tier.pages.adopt(clears{strconv.Itoa(i): uint64(i + 1)})
	}
	if n := len(tier.pages.adopt(nil)); n != maxNamespaces {
		t.Errorf("%d clears are remembered, want %d", n, maxNamespaces)
	}
	if tier.pages.adopt(nil)[strconv.Itoa(maxNamespaces+99)] == 0 {
		t.Error("the last clear is forgotten")
	}
}
