package store

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/kvtier/proto"
)

// naive is the eviction policy over slots of one size, on slices: ARC without chains.
type naive struct {
	room   int
	queue  [queues][]key   // the least recently used first
	ghosts [queues][]ghost // evicted from each queue, the oldest first
	target int
	pins   map[key]bool
}

// ghost is an evicted page, live until it comes back or is evicted again.
type ghost struct {
	key  key
	live bool
}

// live counts the live ghosts of a queue.
func (n *naive) live(q int) (live int) {
	for _, g := range n.ghosts[q] {
		if g.live {
			live++
		}
	}
	return live
}

// lay ends a live ghost, and reports whether there was one.
func (n *naive) lay(q int, k key) bool {
	i := slices.Index(n.ghosts[q], ghost{k, true})
	if i >= 0 {
		n.ghosts[q][i].live = false
	}
	return i >= 0
}

func (n *naive) size() int { return len(n.queue[probation]) + len(n.queue[protected]) }

func (n *naive) has(k key) bool {
	return slices.Contains(n.queue[probation], k) || slices.Contains(n.queue[protected], k)
}

// take removes a key from a list, and reports whether it was there.
func take(list *[]key, k key) bool {
	i := slices.Index(*list, k)
	if i >= 0 {
		*list = slices.Delete(*list, i, i+1)
	}
	return i >= 0
}

// use makes a page the newest protected one.
func (n *naive) use(k key) {
	if take(&n.queue[probation], k) || take(&n.queue[protected], k) {
		n.queue[protected] = append(n.queue[protected], k)
	}
}

func (n *naive) add(k key) {
	q, gone := probation, [queues]int{n.live(probation), n.live(protected)}
	switch {
	case n.lay(probation, k):
		q, n.target = protected, min(n.size(), n.target+max(1, gone[protected]/gone[probation]))
	case n.lay(protected, k):
		q, n.target = protected, max(0, n.target-max(1, gone[probation]/gone[protected]))
	}
	if n.size() == n.room && !n.evict() {
		return
	}
	n.queue[q] = append(n.queue[q], k)
}

// evict makes room for one page; false: all are pinned.
func (n *naive) evict() bool {
	order := []int{probation, protected}
	if len(n.queue[probation]) <= n.target && len(n.queue[protected]) > 0 {
		order = []int{protected, probation}
	}
	for _, q := range order {
		i := slices.IndexFunc(n.queue[q], func(k key) bool { return !n.pins[k] })
		if i < 0 {
			continue
		}
		k, limit := n.queue[q][i], n.size()
		n.queue[q] = slices.Delete(n.queue[q], i, i+1)
		n.lay(q, k)
		n.ghosts[q] = append(n.ghosts[q], ghost{k, true})
		for n.live(q) > limit || len(n.ghosts[q]) > 2*limit {
			n.ghosts[q] = n.ghosts[q][1:]
		}
		return true
	}
	return false
}

// FuzzIndexAgainstNaive plays one script on the index and on naive, which must hold the same pages.
// Those of the index must have distinct slots, stay while pinned, and be counted right.
func FuzzIndexAgainstNaive(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 64, 65, 130, 200, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20})
	f.Add([]byte("pages come and go, and some are pinned for a while"))
	rng := rand.New(rand.NewPCG(1, 1))
	for range 20 {
		script := make([]byte, 1000)
		for i := range script {
			script[i] = byte(rng.Uint32())
		}
		f.Add(script)
	}
	f.Fuzz(func(t *testing.T, script []byte) {
		const size, slabs = minSlab / 4, 3 // 12 pages
		x := newIndex(slabs, minSlab)
		oracle := &naive{room: slabs * 4, pins: map[key]bool{}}
		if _, err := x.spaces.get("m", size); err != nil {
			t.Fatal(err)
		}
		pinned := map[key]int64{} // and where
		for i, b := range script {
			k := key{0, proto.Hash{b%32 + 1}}
			switch b >> 6 {
			case 0, 1:
				store(x, k)
				if oracle.has(k) {
					oracle.use(k)
				} else {
					oracle.add(k)
				}
			case 2:
				if n := x.prefix(0, []proto.Hash{k.hash}); n == 1 != oracle.has(k) {
					t.Fatalf("step %d: the index has %d of page %d, the naive one %t", i, n, b%32, oracle.has(k))
				}
				oracle.use(k)
			case 3:
				togglePin(x, k, pinned)
				_, oracle.pins[k] = pinned[k]
			}
			checkIndex(t, x, pinned)
		}
		for i := range byte(32) {
			k := key{0, proto.Hash{i + 1}}
			if (x.table.find(k) != none) != oracle.has(k) {
				t.Errorf("page %d: the index has it: %t, the naive one: %t", i, x.table.find(k) != none, oracle.has(k))
			}
		}
	})
}

// store reserves and publishes a page.
func store(x *index, k key) {
	e, _ := x.reserve(k.ns, k.hash, false)
	x.publish(k.ns, []proto.Hash{k.hash}, []int32{e}, nil)
}

func togglePin(x *index, k key, pinned map[key]int64) {
	e := x.table.find(k)
	if _, was := pinned[k]; was {
		x.unpin(e)
		delete(pinned, k)
	} else if e != none {
		x.pin(e)
		pinned[k] = x.table.entries[e].offset
	}
}

// checkIndex checks the invariants of an index.
func checkIndex(t *testing.T, x *index, pinned map[key]int64) {
	t.Helper()
	places := map[int64]bool{}
	for k, e := range x.table.byKey {
		n := x.table.entries[e]
		if n.key != k || places[n.offset] || n.offset < 0 || n.offset+int64(x.spaces.byID[k.ns].bytes) > x.evictor.slabBytes*int64(len(x.evictor.slabs)) {
			t.Fatalf("page %v is at %d with key %v, which another may have: %t", k, n.offset, n.key, places[n.offset])
		}
		places[n.offset] = true
	}
	for k, offset := range pinned {
		if e := x.table.find(k); e == none || x.table.entries[e].offset != offset {
			t.Fatalf("page %v was pinned at %d and is gone or elsewhere", k, offset)
		}
	}
	queued, free := 0, 0
	for i := range x.evictor.classes {
		for q := range x.evictor.classes[i].queue {
			list, last, count := &x.evictor.classes[i].queue[q], none, 0
			for e := list.head; e != none; e = x.table.entries[e].next {
				if x.table.entries[e].prev != last || count > len(x.table.entries) {
					t.Fatalf("queue %d is broken at entry %d", q, e)
				}
				last, count = e, count+1
			}
			if last != list.tail || count != list.count {
				t.Fatalf("queue %d ends at %d with %d pages, and says %d with %d", q, last, count, list.tail, list.count)
			}
			queued += count
		}
		free += len(x.evictor.classes[i].free)
	}
	if queued != len(x.table.byKey) || int64(queued) != x.stats.ready || x.stats.pinned != int64(len(pinned)) {
		t.Fatalf("%d pages in queues, %d in the table, %d counted; %d pins, %d counted", queued, len(x.table.byKey), x.stats.ready, len(pinned), x.stats.pinned)
	}
}

// Two models with pages of different sizes share the memory by use, not by their order.
func TestSizesShareMemory(t *testing.T) {
	x := newIndex(8, minSlab)
	small, err := x.spaces.get("small", 1000)
	require.NoError(t, err)
	big, err := x.spaces.get("big", minSlab/2)
	require.NoError(t, err)
	put := func(ns uint32, from, n int) {
		for i := range n {
			var h proto.Hash
			binary.LittleEndian.PutUint64(h[:], uint64(from+i+1))
			store(x, key{ns, h})
		}
	}
	put(small, 0, 8*minSlab/1024)
	if x.evictor.classes[0].slabs != 8 {
		t.Fatalf("the first model has %d of 8 slabs", x.evictor.classes[0].slabs)
	}
	put(big, 0, 16)
	if n := x.evictor.classes[1].slabs; n != 8 {
		t.Errorf("the second model, the only one that is used now, got %d of 8 slabs", n)
	}
	put(small, 1000, 100)
	if n := x.evictor.classes[0].slabs; n != 2 {
		t.Errorf("100 pages of 1,024 bytes got %d slabs of 64 KiB, want 2", n)
	}
	checkIndex(t, x, nil)
}

// A long prompt that comes once does not evict pages in repeated use.
func TestOnePromptDoesNotFlush(t *testing.T) {
	x := newIndex(16, minSlab) // 1,024 pages
	ns, err := x.spaces.get("m", 1024)
	require.NoError(t, err)
	system := chain(1, 200)
	send := func(hashes []proto.Hash) {
		n := x.prefix(ns, hashes)
		for at := n; at < len(hashes); at += 128 {
			batch := hashes[at:min(at+128, len(hashes))]
			es := make([]int32, len(batch))
			for i, h := range batch {
				es[i], _ = x.reserve(ns, h, false)
			}
			var parent *proto.Hash
			if at > 0 {
				parent = &hashes[at-1]
			}
			x.publish(ns, batch, es, parent)
		}
	}
	for range 3 {
		send(system)
	}
	send(chain(2, 5000))
	if n := x.prefix(ns, system); n != 200 {
		t.Errorf("%d of 200 pages of a prompt in use outlived one of 5,000 pages", n)
	}
	if x.evictor.stats.orphaned != 0 {
		t.Errorf("%d pages were evicted before one that follows them", x.evictor.stats.orphaned)
	}
}

// A page that returns after its eviction from a queue shows that this queue should have been
// longer.
func TestBorderIsLearnt(t *testing.T) {
	x := newIndex(1, minSlab)
	ns, err := x.spaces.get("m", minSlab/8)
	require.NoError(t, err)
	page := func(i byte) key { return key{ns, proto.Hash{i}} }
	for i := range byte(12) {
		store(x, page(i)) // the first four are evicted again
	}
	c := &x.evictor.classes[0]
	store(x, page(2))
	if c.target == 0 || x.table.entries[x.table.find(page(2))].queue != protected {
		t.Errorf("a page that came back from probation: room %d, queue %d", c.target, x.table.entries[x.table.find(page(2))].queue)
	}
	room := c.target
	for i := range byte(12) { // all that are here are used again,
		x.prefix(ns, []proto.Hash{page(i).hash})
	}
	last := x.table.entries[c.queue[protected].tail].key
	store(x, page(100)) // and one of them has to go
	if x.table.find(last) != none {
		t.Fatal("the page that was used least recently is still here")
	}
	store(x, last)
	if c.target >= room || x.table.entries[x.table.find(last)].queue != protected {
		t.Errorf("a page that came back from the protected ones: room %d after %d", c.target, room)
	}
	checkIndex(t, x, nil)
}
