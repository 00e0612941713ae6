package store

import "github.com/warmpath/warmpath/dataplane/kvtier/proto"

// Follow has changes remembered from now on, and returns where they begin and a channel that has something when there are new ones. A tier that nobody
// follows spends nothing on them. It may be called again.
func (t *Tier) Follow() (proto.Position, <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := &t.index.feed
	if !f.on {
		f.on, f.ring = true, make([]proto.Change, keptChanges)
		f.now.Number = 0
	}
	return f.now, t.changed
}

// Kinds lists what pages the tier keeps. The order stays; new ones come last.
func (t *Tier) Kinds() []proto.Kind {
	t.mu.Lock()
	defer t.mu.Unlock()
	kinds := make([]proto.Kind, len(t.index.feed.kinds))
	for i := range kinds {
		kinds[i] = t.index.feed.kinds[i].Kind
	}
	return kinds
}

// Changes appends changes from a position on, as many as fit into dst's capacity, and returns the position behind them and the present one. ok is false
// where they are not remembered any more, or never were: what the tier holds is then to be read anew, from now on.
func (t *Tier) Changes(dst []proto.Change, from proto.Position) (list []proto.Change, next, now proto.Position, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := &t.index.feed
	if from.Epoch != f.now.Epoch || from.Number > f.now.Number || f.now.Number-from.Number > keptChanges || !f.on {
		return dst, f.now, f.now, false
	}
	for ; from.Number < f.now.Number && len(dst) < cap(dst); from.Number++ {
		dst = append(dst, f.ring[from.Number%keptChanges])
	}
	return dst, from, f.now, true
}

// contentsStep bounds what is looked at under the lock at once: some 0.2 ms.
const contentsStep = 2048

// Contents appends pages that are held, as many as fit into dst's capacity, from a place on which is 0 at first and which the last call returned later; below 0 is
// the end. A page that comes or goes meanwhile may be in the list or not: changes from the position before the first call on make it right.
func (t *Tier) Contents(dst []proto.Change, place int) (list []proto.Change, next int) {
	for place >= 0 && len(dst) < cap(dst) {
		dst, place = t.contents(dst, place)
	}
	return dst, place
}

func (t *Tier) contents(dst []proto.Change, place int) (list []proto.Change, next int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	x := t.index
	for range contentsStep {
		if place >= len(x.entries) {
			return dst, -1
		}
		if len(dst) == cap(dst) {
			break
		}
		// Told for one namespace of the kind, the first: the page is there in all or in none.
		if e := &x.entries[place]; e.state == ready {
			if i := x.spaces[e.key.ns].kind; i >= 0 {
				if k := &x.feed.kinds[i]; x.first(k) == e.key.ns && x.whole(k, e.key) {
					dst = append(dst, proto.Change{Page: e.key.hash.Name(), Kind: uint32(i)})
				}
			}
		}
		place++
	}
	return dst, place
}

// none32 is no namespace.
const none32 = ^uint32(0)

// first is the first namespace of the main pool of a kind.
func (x *index) first(k *kind) uint32 {
	for _, m := range k.members {
		if x.spaces[m].Pool == mainPool {
			return m
		}
	}
	return none32
}

// wake tells who follows. It does not block.
func (t *Tier) wake() {
	select {
	case t.changed <- struct{}{}:
	default:
	}
}
