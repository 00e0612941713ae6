package queue

import (
	"math"
	"slices"
	"time"

	"github.com/tidwall/btree"
)

// NoPriority is the priority of a request that names none: below all others, as in SGLang.
const NoPriority = math.MinInt

// AnyDP is the DP of a request that may go to any data-parallel rank.
const AnyDP = -1

// Rules are the settings of an Order.
type Rules struct {
	Max int // waiting requests
	// MaxAge is the age of an overdue request, or a sixteenth of its patience if that is longer.
	// Overdue requests get one dispatch in four.
	MaxAge  time.Duration
	Patient time.Duration // requests with more patience are patient; 0: none is
	FIFO    bool          // first come, first served, and nothing else
}

// class is a rank of requests in the order: one of a higher class always goes first.
type class struct {
	priority int
	patient  bool // the request may wait longer than most
}

// above reports whether a goes first.
func (a class) above(b class) bool {
	if a.priority != b.priority {
		return a.priority > b.priority
	}
	return !a.patient && b.patient
}

// overdueEvery is the share of dispatches that overdue requests get. Where all are overdue for
// lack of workers, plain first come, first served would undo the order when it is worth most.
const overdueEvery = 4

// Order holds waiting requests and decides which one goes first. The zero value is not usable.
type Order struct {
	rules    Rules
	waiting  *btree.BTreeG[*Waiter] // by priority, branch and arrival
	arrivals *btree.BTreeG[*Waiter] // by arrival
	clients  clients
	classes  map[class]int // of the waiting requests
	newest   bool          // see NewestFirst
	ranks    map[any]*recent
	claims   map[uint64]int // hashes of ranks' recent branches: number of ranks that have them
	seq      uint64
	regular  int    // dispatches since the last one of an overdue request
	next     Waiter // scratch of look-ups by branch
}

// NewOrder returns an empty order.
func NewOrder(rules Rules) *Order {
	unlocked := btree.Options{NoLocks: true} // an Order belongs to one goroutine
	return &Order{
		rules:    rules,
		waiting:  btree.NewBTreeGOptions(beforeInOrder, unlocked),
		arrivals: btree.NewBTreeGOptions(func(a, b *Waiter) bool { return a.seq < b.seq }, unlocked),
		clients:  make(clients), classes: make(map[class]int), ranks: make(map[any]*recent), claims: make(map[uint64]int), regular: overdueEvery - 1,
	}
}

// beforeInOrder sorts by class, the highest first, then by branch, so that requests that
// share a beginning are neighbours, then by arrival.
func beforeInOrder(a, b *Waiter) bool {
	if a.class != b.class {
		return a.class.above(b.class)
	}
	if c := slices.Compare(a.Branch, b.Branch); c != 0 {
		return c < 0
	}
	return a.seq < b.seq
}

// Len returns the number of waiting requests.
func (o *Order) Len() int { return o.arrivals.Len() }

// NewestFirst has the last one of equal requests go first, and no overdue request before it,
// but for patient ones.
func (o *Order) NewestFirst(on bool) { o.newest = on && !o.rules.FIFO }

// goesFirst reports whether a new request goes before older ones of its class.
func (o *Order) goesFirst(w *Waiter) bool { return o.newest && !o.classOf(w).patient }

// Urgent returns the number of waiting requests that are not patient.
func (o *Order) Urgent() (n int) {
	for c, waiting := range o.classes {
		if !c.patient {
			n += waiting
		}
	}
	return n
}

// Ahead returns the number of waiting requests that go before a new one if clients have had
// equal turns.
func (o *Order) Ahead(w *Waiter) (n int) {
	of := o.classOf(w)
	for c, waiting := range o.classes {
		if o.rules.FIFO || !of.above(c) {
			n += waiting
		}
	}
	return n
}

func (o *Order) classOf(w *Waiter) class {
	return class{w.Priority, o.rules.Patient > 0 && w.Patience > o.rules.Patient}
}

// Clients returns the number of clients with waiting requests.
func (o *Order) Clients() (n int) {
	for _, c := range o.clients {
		if c.waiting > 0 {
			n++
		}
	}
	return n
}

// Oldest returns the arrival of the request that waits longest; false: none waits.
func (o *Order) Oldest() (since time.Duration, ok bool) {
	w, ok := o.arrivals.Min()
	if !ok {
		return 0, false
	}
	return w.since, true
}

// All appends the waiting requests in the order of their arrival.
func (o *Order) All(dst []*Waiter) []*Waiter {
	o.arrivals.Scan(func(w *Waiter) bool {
		dst = append(dst, w)
		return true
	})
	return dst
}

// Push adds a request. At the bound it displaces another one (out) or is refused.
func (o *Order) Push(w *Waiter, now time.Duration) (out *Waiter, ok bool) {
	if o.Len() >= o.rules.Max {
		if out = o.Victim(w, false); out == nil {
			return nil, false
		}
		o.Remove(out)
	}
	o.seq++
	w.class, w.seq, w.since, w.client = o.classOf(w), o.seq, now, o.clients.enter(w.Client)
	o.classes[w.class]++
	o.waiting.Set(w)
	o.arrivals.Set(w)
	return out, true
}

// Victim returns the waiting request that is refused in favour of w, if it has less right to wait
// than w: of the lowest class, or of w's own, the newest one of the client with most waiting
// requests. nil: there is none.
func (o *Order) Victim(w *Waiter, own bool) *Waiter {
	of := o.classOf(w)
	lowest := of
	if !own {
		lowest = o.lowest(func(class) bool { return true })
	}
	if o.rules.FIFO || lowest.above(of) {
		return nil
	}
	worst := o.worst(lowest, false)
	if worst == nil || lowest == of && worst.client.waiting <= o.clients.waiting(w.Client)+1 {
		return nil
	}
	return worst
}

// Stale returns the request with the least prospect of a turn while newer ones go first: of the
// lowest class that is not patient, the oldest one of the client with most waiting requests.
func (o *Order) Stale() *Waiter {
	return o.worst(o.lowest(func(c class) bool { return !c.patient }), true)
}

// lowest returns the lowest class of the waiting requests that is ok.
func (o *Order) lowest(ok func(class) bool) (lowest class) {
	found := false
	for c := range o.classes {
		if ok(c) && (!found || lowest.above(c)) {
			lowest, found = c, true
		}
	}
	return lowest
}

// worst returns the newest or oldest request in class c of the client with most waiting requests.
func (o *Order) worst(c class, oldest bool) (worst *Waiter) {
	o.waiting.Ascend(&Waiter{class: c}, func(v *Waiter) bool {
		if v.class != c {
			return false
		}
		if worst == nil || v.client.waiting > worst.client.waiting ||
			v.client.waiting == worst.client.waiting && (v.seq < worst.seq) == oldest {
			worst = v
		}
		return true
	})
	return worst
}

// Remove takes out a request; false: it does not wait here.
func (o *Order) Remove(w *Waiter) bool {
	if w.client == nil {
		return false
	}
	if found, ok := o.arrivals.Get(w); !ok || found != w {
		return false
	}
	o.arrivals.Delete(w)
	o.waiting.Delete(w)
	if o.classes[w.class]--; o.classes[w.class] == 0 {
		delete(o.classes, w.class)
	}
	o.clients.leave(w.client)
	w.client = nil
	return true
}

// Pop takes out the request that goes first to the rank of that key and data-parallel number,
// and counts it as sent there. nil: no request may go there.
func (o *Order) Pop(key any, dp int, now time.Duration) *Waiter {
	r := o.rank(key)
	w := o.overdue(dp, now)
	if w != nil {
		o.regular = 0
	} else if w = o.first(r, dp); w != nil {
		o.regular++
	} else {
		return nil
	}
	w.client.credit -= max(w.Tokens-tokensAt(r.depth(w.Branch)), 0) + requestTokens
	o.Remove(w)
	r.add(w.Branch, o.claims)
	return w
}

// Sent notes a request that the rank of that key was sent other than by Pop.
func (o *Order) Sent(key any, b Branch) { o.rank(key).add(b, o.claims) }

// KeepRanks forgets the ranks for which keep is false.
func (o *Order) KeepRanks(keep func(key any) bool) {
	for key, r := range o.ranks {
		if !keep(key) {
			for _, b := range r.branches {
				r.remove(b, o.claims)
			}
			delete(o.ranks, key)
		}
	}
}

func (o *Order) rank(key any) *recent {
	r := o.ranks[key]
	if r == nil {
		r = &recent{counts: make(map[uint64]int)}
		o.ranks[key] = r
	}
	return r
}

// overdue returns the oldest request where it has waited for too long and the turn is its own.
func (o *Order) overdue(dp int, now time.Duration) (oldest *Waiter) {
	if o.rules.FIFO || o.regular < overdueEvery-1 {
		return nil
	}
	return o.oldest(dp, func(w *Waiter) bool {
		return now-w.since >= max(o.rules.MaxAge, w.Patience/ageShare) && (w.class.patient || !o.newest)
	})
}

// oldest returns the first request in arrival order that may go to dp and is ok.
func (o *Order) oldest(dp int, ok func(*Waiter) bool) (oldest *Waiter) {
	o.arrivals.Scan(func(w *Waiter) bool {
		if w.fits(dp) && ok(w) {
			oldest = w
		}
		return oldest == nil
	})
	return oldest
}

// first returns the request that goes first by priority, turn of its client, depth and arrival.
func (o *Order) first(r *recent, dp int) *Waiter {
	if o.rules.FIFO {
		return o.oldest(dp, func(*Waiter) bool { return true })
	}
	b := best{order: o, rank: r}
	if b.search(dp); b.waiter != nil || b.rounds == 0 {
		return b.waiter
	}
	// No client of the highest priority has credit.
	o.clients.refill(b.rounds)
	b = best{order: o, rank: r}
	b.search(dp)
	return b.waiter
}
