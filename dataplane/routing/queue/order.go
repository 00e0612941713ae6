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
	Max    int           // waiting requests
	MaxAge time.Duration // an older request is overdue: overdue requests get one dispatch in four
	FIFO   bool          // first come, first served, and nothing else
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
		clients:  make(clients), ranks: make(map[any]*recent), claims: make(map[uint64]int), regular: overdueEvery - 1,
	}
}

// beforeInOrder sorts by priority, the highest first, then by branch, so that requests that
// share a beginning are neighbours, then by arrival.
func beforeInOrder(a, b *Waiter) bool {
	if a.Priority != b.Priority {
		return a.Priority > b.Priority
	}
	if c := slices.Compare(a.Branch, b.Branch); c != 0 {
		return c < 0
	}
	return a.seq < b.seq
}

// Len returns the number of waiting requests.
func (o *Order) Len() int { return o.arrivals.Len() }

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
		if out = o.victim(w); out == nil {
			return nil, false
		}
		o.Remove(out)
	}
	o.seq++
	w.seq, w.since, w.client = o.seq, now, o.clients.enter(w.Client)
	o.waiting.Set(w)
	o.arrivals.Set(w)
	return out, true
}

// victim returns the request with the least right to wait, if it has less than w: the newest
// one of the lowest priority, of the client with the most waiting requests there. nil: there is
// none.
func (o *Order) victim(w *Waiter) (worst *Waiter) {
	if o.rules.FIFO {
		return nil
	}
	o.waiting.Reverse(func(v *Waiter) bool {
		if worst != nil && v.Priority > worst.Priority {
			return false
		}
		if worst == nil || v.client.waiting > worst.client.waiting || v.client.waiting == worst.client.waiting && v.seq > worst.seq {
			worst = v
		}
		return true
	})
	if worst == nil || worst.Priority > w.Priority {
		return nil
	}
	if worst.Priority == w.Priority && worst.client.waiting <= o.clients.waiting(w.Client)+1 {
		return nil
	}
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
	return o.oldest(dp, func(w *Waiter) bool { return now-w.since >= o.rules.MaxAge })
}

// oldest returns the first request in arrival order that may go to dp, as long as ok holds.
func (o *Order) oldest(dp int, ok func(*Waiter) bool) (oldest *Waiter) {
	o.arrivals.Scan(func(w *Waiter) bool {
		if !ok(w) {
			return false
		}
		if w.fits(dp) {
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
