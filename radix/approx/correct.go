package approx

// Unreported is the actual of an answer that does not say how many tokens were cached.
const Unreported = -1

// minCapacity is the least capacity that answers may teach, in units: 2,000 tokens. No engine is smaller.
const minCapacity = 64

// Correct notes an answer: a request with chain, inserted for w at since, was prefilled, and the engine had actual leading units of
// it cached before (the answer's cached_tokens, over the tokens of a unit), or [Unreported]. So w now holds the whole chain for certain.
//
// Less than an earlier answer had proved means that the engine has evicted: everything of w that was last used no later than
// the missing part is dropped, and what then remains is the capacity believed from now on. It falls by half at most, and not below
// the prompt itself. More than was known raises it. An engine that holds what was only predicted by requests still on their way is never
// contradicted: a burst of requests for one new prompt finds nothing cached, and that says nothing about evictions.
func (t *Tree) Correct(w Worker, chain []Key, since Tick, actual int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.ownerLocked(w)
	if o == nil {
		return
	}
	t.clock++
	chain = chain[:min(len(chain), t.maxChain)]
	// The engine had all of it at once; this lets a capacity that was learnt too low come back.
	if o.capacity > 0 {
		o.setCapacity(max(o.capacity, int64(len(chain))))
	}
	chain = t.clip(o, chain)
	b := t.believed(o, chain, since, actual)
	added := t.insertLocked(o, chain)
	t.proveLocked(o, false)
	// An insert whose tick is not known (the worker was cleared meanwhile) proves, but teaches nothing.
	if actual == Unreported || since == 0 {
		t.trimLocked(o, added)
		return
	}
	actual = min(actual, len(chain))
	switch slack := tolerance(b.sure); {
	case b.sure-actual > slack:
		t.contradictLocked(o, b, added, int64(len(chain)))
	case actual-b.known > slack:
		t.stats.Surprised++
		o.raise(int64(actual-b.known)/surprise, int64(len(chain)))
		t.trimLocked(o, added)
	default:
		if b.sure > slack {
			o.raise(int64(len(chain)-actual)/probe, int64(len(chain)))
		}
		t.trimLocked(o, added)
	}
}

// tolerance is by how many units a count may be off: engines count whole pages, and text is turned into tokens by the prompt's mean.
func tolerance(units int) int { return 1 + units/8 }

// probe is how slowly a capacity that nothing contradicts is raised: by 1/16 of what is newly held. Without it one wrong lesson
// would last, since what is believed evicted is seldom asked for again where it was.
const probe = 16

// surprise is by how much of a surprise a capacity is raised: a quarter, because part of it are answers, which the engine caches
// too and which no insert told of.
const surprise = 4

// belief is what was believed of a chain before a request was dispatched.
type belief struct {
	sure    int  // leading units proved by answers
	known   int  // leading units held, proved or predicted
	missing Tick // when the first part that was sure but not there had last been used; 0 for unknown
}

// believed walks o's path of chain as it was at since.
func (t *Tree) believed(o *owner, chain []Key, since Tick, actual int) (b belief) {
	n, depth, found := &t.root, 0, false
	for depth < len(chain) {
		next := t.child(n, chain[depth])
		if next == nil {
			break
		}
		h, _ := next.find(o)
		if h == nil || h.born >= since {
			break
		}
		k := common(next.run, chain[depth:])
		depth += k
		b.known = depth
		if h.sure != 0 && h.sure < since {
			b.sure = depth
		}
		if depth > actual && !found {
			found = true
			b.missing = h.before(since)
		}
		if k < len(next.run) {
			break
		}
		n = next
	}
	return b
}

// before returns when h was last used before since, or 0 if two later uses have hidden it.
func (h *hold) before(since Tick) Tick {
	switch {
	case h.used < since:
		return h.used
	case h.prior < since:
		return h.prior
	default:
		return 0
	}
}

// proveLocked marks the path that was just used as sure, or as sure only since now. It stands at the front of o's list.
func (t *Tree) proveLocked(o *owner, anew bool) {
	ring := &o.list.ring
	for h := ring.links[ofOwner].next; h != ring && h.used == t.clock; h = h.links[ofOwner].next {
		if anew || h.sure == 0 {
			h.sure = t.clock
		}
	}
}

// contradictLocked drops what the engine cannot hold, and learns its capacity from what remains.
func (t *Tree) contradictLocked(o *owner, b belief, added, length int64) {
	t.stats.Contradicted++
	// Requests that were sent before the engine had it again will tell the same story: one lesson is enough.
	t.proveLocked(o, true)
	base := o.units
	if o.capacity > 0 {
		base = min(base, o.capacity)
	}
	// An engine evicts what was least recently used. So what was used no later than the missing part is gone too; the path
	// itself was used since, and stays.
	o.stale = max(o.stale, b.missing)
	t.trimLocked(o, added)
	o.setCapacity(max(min(o.units, base), base/2, length, minCapacity))
}

// raise raises a believed capacity, where there is one and it lacks room for one more prompt of this length: else it is not what
// kept units out.
func (o *owner) raise(units, length int64) {
	if o.capacity == 0 || o.units+length <= o.capacity {
		return
	}
	o.setCapacity(o.capacity + units)
}

// setCapacity sets what is believed, within what is configured.
func (o *owner) setCapacity(units int64) {
	o.capacity = units
	if o.limit > 0 {
		o.capacity = min(units, o.limit)
	}
}
