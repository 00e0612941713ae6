package approx

import "github.com/warmpath/warmpath/radix/internal/keyed"

// Unreported is the number of cached units of an answer that does not tell it.
const Unreported = -1

const (
	// minCapacity is the least capacity, in units, that answers may teach: 2,000 tokens. No
	// engine is smaller.
	minCapacity = 64

	// agreeShare is the part of newly held units by which an uncontradicted capacity rises.
	// Without it a wrong lesson would last, because prompts believed evicted are rarely sent to
	// that worker.
	agreeShare = 16

	// surpriseShare is the part of a surprise by which a capacity rises. It is a quarter
	// because answers, which the engine caches too, are a part of the surprise.
	surpriseShare = 4

	// trimBatch is the number of holdings that a call may drop beyond the units that it added:
	// 20 µs. So a capacity that fell does not block look-ups; the next calls drop the rest.
	trimBatch = 64
)

// Insert notes that a request with chain was dispatched to w, which will hold it. The result
// names this moment for [Tree.Correct]. For an unknown worker, removed meanwhile, it does
// nothing.
//
// The memory bound and the worker's capacity hold again when Insert returns.
func (t *Tree) Insert(w Worker, chain []Key) Tick {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.cacheLocked(w)
	if c == nil {
		return 0
	}
	t.clock++
	added := t.nodes.insert(c, t.clip(c, chain), t.clock)
	t.trimLocked(c, added)
	return t.clock
}

// Correct notes an answer: a request with chain, inserted for w at since, was prefilled, and
// the engine had its first cached units (the answer's cached_tokens over the tokens of a unit),
// or [Unreported]. So w now holds the whole chain for certain.
//
// Fewer units than an earlier answer had proven mean that the engine has evicted: all of w that
// was last used no later than the missing part is dropped, and the rest is the believed
// capacity. It falls by half at most, and not below the prompt. More units than expected raise
// it. Predictions of requests under way are never contradicted: a burst of requests with one
// new prompt finds nothing cached, and no eviction follows from that. An answer to a request of an
// earlier cache of w tells nothing.
func (t *Tree) Correct(w Worker, chain []Key, since Tick, cached int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.cacheLocked(w)
	if c == nil || since <= c.born {
		return
	}
	t.clock++
	chain = chain[:min(len(chain), t.maxChain)]
	// The engine had all of it at once, so a capacity that was learnt too low rises.
	if c.capacity > 0 {
		c.setCapacity(max(c.capacity, int64(len(chain))))
	}
	chain = t.clip(c, chain)
	b := t.beliefLocked(c, chain, since, cached)
	added := t.nodes.insert(c, chain, t.clock)
	c.prove(t.clock, false)
	if cached == Unreported {
		t.trimLocked(c, added)
		return
	}
	cached = min(cached, len(chain))
	switch slack := tolerance(b.proven); {
	case b.proven-cached > slack:
		t.contradictLocked(c, b, added, int64(len(chain)))
	case cached-b.expected > slack:
		t.stats.Surprised++
		c.raise(int64(cached-b.expected)/surpriseShare, int64(len(chain)))
		t.trimLocked(c, added)
	default:
		if b.proven > slack {
			c.raise(int64(len(chain)-cached)/agreeShare, int64(len(chain)))
		}
		t.trimLocked(c, added)
	}
}

// Withdraw takes back an Insert of chain for w, made at since: the request never reached the
// worker, or was aborted before its prefill. Older holdings stay, and so do those that another
// request has used since.
func (t *Tree) Withdraw(w Worker, chain []Key, since Tick) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.cacheLocked(w)
	if c == nil {
		return
	}
	for n := t.nodes.deepest(c, chain[:min(len(chain), t.maxChain)]); n != &t.nodes.root; {
		h, _ := n.find(c)
		// An answer that proves a part uses it too, at a later tick.
		if h.created != since || h.used != since {
			return
		}
		n = n.parent // before the node is freed
		t.stats.Withdrawn++
		t.nodes.drop(h)
	}
}

// clip cuts a chain to the length that c may hold at all.
func (t *Tree) clip(c *cache, chain []Key) []Key {
	n := min(len(chain), t.maxChain)
	if c.capacity > 0 {
		n = int(min(int64(n), c.capacity))
	}
	return chain[:n]
}

// tolerance is the error of a count of units: engines count whole pages, and text becomes
// tokens by the prompt's mean.
func tolerance(units int) int { return 1 + units/8 }

// belief is the state of a chain before its request was dispatched.
type belief struct {
	proven   int  // leading units proven by answers
	expected int  // leading units held, proven or not
	missing  Tick // last use of the first part that was proven but not cached; 0: unknown
}

// beliefLocked walks c's path of chain as it was at since.
func (t *Tree) beliefLocked(c *cache, chain []Key, since Tick, cached int) (b belief) {
	n, depth, found := &t.nodes.root, 0, false
	for depth < len(chain) {
		next := t.nodes.child(n, chain[depth])
		if next == nil {
			break
		}
		h, _ := next.find(c)
		if h == nil || h.created >= since {
			break
		}
		k := keyed.CommonPrefix(next.keys, chain[depth:])
		depth += k
		b.expected = depth
		if h.proven != 0 && h.proven < since {
			b.proven = depth
		}
		if depth > cached && !found {
			found = true
			b.missing = h.usedBefore(since)
		}
		if k < len(next.keys) {
			break
		}
		n = next
	}
	return b
}

// contradictLocked drops the holdings that the engine has evicted, and learns its capacity from
// the rest.
func (t *Tree) contradictLocked(c *cache, b belief, added, length int64) {
	t.stats.Contradicted++
	// Other requests under way will report the same; one lesson is enough.
	c.prove(t.clock, true)
	base := c.units
	if c.capacity > 0 {
		base = min(base, c.capacity)
	}
	// Engines evict by last use: all that was used no later than the missing part is gone. The
	// path itself was used since and stays.
	c.stale = max(c.stale, b.missing)
	t.trimLocked(c, added)
	c.setCapacity(max(min(c.units, base), base/2, length, minCapacity))
}

// trimLocked drops the holdings of c that are stale or beyond its capacity, then those beyond
// the memory bound.
func (t *Tree) trimLocked(c *cache, added int64) {
	for left := added + trimBatch; left > 0; left-- {
		h := c.list.last()
		switch {
		case h == nil:
			left = 0
		case h.used <= c.stale:
			t.stats.EvictedStale++
			t.nodes.drop(h)
		case c.capacity > 0 && c.units > c.capacity:
			t.stats.EvictedCapacity++
			t.nodes.drop(h)
		default:
			left = 0
		}
	}
	// This ends within the bound, because all that was added can be dropped.
	for t.nodes.bytes > t.liveBytes {
		h := t.nodes.recent.last()
		if h == nil {
			return
		}
		t.stats.EvictedMemory++
		t.nodes.drop(h)
	}
}
