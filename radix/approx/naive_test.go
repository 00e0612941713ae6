package approx_test

import (
	"github.com/warmpath/warmpath/radix/approx"
)

// naive is the reference tree, unit by unit and in maps. It gets the number of memory evictions
// from the tree.
type naive struct {
	held  map[approx.Worker]*life
	ends  map[string]bool // ends of nodes, by prefix; a node is between two ends
	clock approx.Tick
}

type life struct {
	units           map[string]*unit // by prefix
	limit, capacity int64
	stale, born     approx.Tick
}

type unit struct{ born, sure, used, prior approx.Tick }

const (
	naiveBatch   = 64 // as trimBatch, minCapacity
	naiveMinimum = 64
)

func newNaive() *naive {
	return &naive{held: map[approx.Worker]*life{}, ends: map[string]bool{}}
}

// add begins a worker anew.
func (n *naive) add(w approx.Worker, capacity int64) {
	n.end(w)
	n.held[w] = &life{units: map[string]*unit{}, limit: capacity, capacity: capacity, born: n.clock}
}

// anyone reports whether a worker holds prefix.
func (n *naive) anyone(prefix string) bool {
	for _, l := range n.held {
		if l.units[prefix] != nil {
			return true
		}
	}
	return false
}

func (n *naive) match(chain string) map[approx.Worker]int {
	found := map[approx.Worker]int{}
	for w, l := range n.held {
		for i := 1; i <= len(chain) && l.units[chain[:i]] != nil; i++ {
			found[w] = i
		}
	}
	return found
}

func (l *life) clip(chain string) string {
	if l.capacity > 0 {
		return chain[:min(int64(len(chain)), l.capacity)]
	}
	return chain
}

// use makes l hold chain and returns the number of new units.
func (n *naive) use(l *life, chain string) (added int64) {
	known := 0
	for known < len(chain) && n.anyone(chain[:known+1]) {
		known++
	}
	for _, end := range []int{known, len(chain)} {
		if end > 0 {
			n.ends[chain[:end]] = true
		}
	}
	for i := range chain {
		u := l.units[chain[:i+1]]
		if u == nil {
			u = &unit{born: n.clock}
			l.units[chain[:i+1]] = u
			added++
		}
		if u.used != n.clock {
			u.prior, u.used = u.used, n.clock
		}
	}
	return added
}

// drop drops the least recently used leaf of the lives, and reports whether there was one.
func (n *naive) drop(lives ...*life) bool {
	var from *life
	var leaf string
	for _, l := range lives {
		for p, u := range l.units {
			if from == nil || u.used < from.units[leaf].used || u.used == from.units[leaf].used && len(p) > len(leaf) {
				from, leaf = l, p
			}
		}
	}
	if from == nil {
		return false
	}
	n.cut(from, leaf)
	return true
}

// cut drops the node that ends with leaf.
func (n *naive) cut(l *life, leaf string) {
	for p := leaf; ; {
		delete(l.units, p)
		if p = p[:len(p)-1]; p == "" || n.ends[p] {
			break
		}
	}
	if !n.anyone(leaf) {
		delete(n.ends, leaf)
	}
}

// oldest returns the last use of the leaf that is evicted first.
func (l *life) oldest() (used approx.Tick, ok bool) {
	for _, u := range l.units {
		if !ok || u.used < used {
			used, ok = u.used, true
		}
	}
	return used, ok
}

func (n *naive) trim(l *life, added int64) {
	for left := added + naiveBatch; left > 0; left-- {
		used, ok := l.oldest()
		if !ok || used > l.stale && (l.capacity == 0 || int64(len(l.units)) <= l.capacity) {
			return
		}
		n.drop(l)
	}
}

func (n *naive) evict(holds int64) {
	var all []*life
	for _, l := range n.held {
		all = append(all, l)
	}
	for range holds {
		n.drop(all...)
	}
}

func (n *naive) insert(w approx.Worker, chain string) approx.Tick {
	l := n.held[w]
	if l == nil {
		return 0
	}
	n.clock++
	n.trim(l, n.use(l, l.clip(chain)))
	return n.clock
}

// withdraw drops the units made at since and not used later, from the end of the chain.
func (n *naive) withdraw(w approx.Worker, chain string, since approx.Tick) {
	l := n.held[w]
	if l == nil {
		return
	}
	for ; chain != ""; chain = chain[:len(chain)-1] {
		switch u := l.units[chain]; {
		case u == nil:
		case u.born != since || u.used != since:
			return
		default:
			n.cut(l, chain)
		}
	}
}

func (n *naive) correct(w approx.Worker, chain string, since approx.Tick, actual int) {
	l := n.held[w]
	if l == nil || since <= l.born {
		return
	}
	n.clock++
	if l.capacity > 0 {
		l.set(max(l.capacity, int64(len(chain))))
	}
	chain = l.clip(chain)
	sure, known, missing := l.believed(chain, since, actual)
	added := n.use(l, chain)
	contradicted := actual != approx.Unreported && sure-min(actual, len(chain)) > 1+sure/8
	for i := range chain {
		if u := l.units[chain[:i+1]]; u.sure == 0 || contradicted {
			u.sure = n.clock
		}
	}
	before := int64(len(l.units))
	switch actual = min(actual, len(chain)); {
	case contradicted:
		l.stale = max(l.stale, missing)
		n.trim(l, added)
		base := before
		if l.capacity > 0 {
			base = min(base, l.capacity)
		}
		l.set(max(min(int64(len(l.units)), base), base/2, int64(len(chain)), naiveMinimum))
		return
	case actual == approx.Unreported:
	case actual-known > 1+sure/8:
		l.raise(int64(actual-known)/4, int64(len(chain)))
	case sure > 1+sure/8:
		l.raise(int64(len(chain)-actual)/16, int64(len(chain)))
	}
	n.trim(l, added)
}

func (l *life) believed(chain string, since approx.Tick, actual int) (sure, known int, missing approx.Tick) {
	for i := 1; i <= len(chain); i++ {
		u := l.units[chain[:i]]
		if u == nil || u.born >= since {
			break
		}
		known = i
		if u.sure != 0 && u.sure < since {
			sure = i
		}
		if i == max(actual, 0)+1 {
			for _, at := range []approx.Tick{u.prior, u.used} {
				if at < since {
					missing = at
				}
			}
		}
	}
	return sure, known, missing
}

func (l *life) raise(units, length int64) {
	if l.capacity > 0 && int64(len(l.units))+length > l.capacity {
		l.set(l.capacity + units)
	}
}

func (l *life) set(capacity int64) {
	l.capacity = capacity
	if l.limit > 0 {
		l.capacity = min(capacity, l.limit)
	}
}

// end forgets all that a worker holds.
func (n *naive) end(w approx.Worker) {
	l := n.held[w]
	for l != nil && n.drop(l) {
	}
}
