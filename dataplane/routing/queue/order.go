package queue

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// NoPriority is the priority of a request that names none: below all others, as in SGLang.
const NoPriority = math.MinInt

// AnyDP is the DP of a request that may go to any data-parallel rank.
const AnyDP = -1

// Waiter is a request that waits. What is exported is the caller's to set before it enters, and not to change after.
type Waiter struct {
	Client   uint64 // who asks: requests of one client share its turns
	Priority int    // higher first; NoPriority where the request names none
	Tokens   int    // of its prompt, or an estimate
	DP       int    // the only data-parallel rank that it may go to; AnyDP
	Branch   Branch // of its prompt; nil: it shares nothing

	seq    uint64
	since  time.Duration
	client *client // nil while it does not wait

	// Of the Gate.
	lane any           // that it was woken for; nil: none in particular
	out  outcome       // guarded by Gate.mu
	done chan struct{} // capacity 1: out is set
}

// Rules say how an Order decides.
type Rules struct {
	Max    int           // waiting requests
	MaxAge time.Duration // a request that has waited so long is overdue: it gets one dispatch in four
	FIFO   bool          // first come, first served, and nothing else
}

// agedEvery is which share of the dispatches goes to overdue requests. Where all are overdue for lack of workers, first
// come, first served alone would undo the order just when it is worth most.
const agedEvery = 4

// Order holds waiting requests and decides which one goes first. The zero value is not usable.
type Order struct {
	rules   Rules
	waiters []*Waiter // by seq
	clients clients
	lanes   map[any]*lane
	claimed map[uint64]int // hashes of lanes' branches: how many lanes have them
	seq     uint64
	regular int // dispatches since the last one to an overdue request
}

// NewOrder returns an empty order.
func NewOrder(rules Rules) *Order {
	return &Order{rules: rules, clients: make(clients), lanes: make(map[any]*lane), claimed: make(map[uint64]int), regular: agedEvery - 1}
}

// Len returns how many requests wait, Clients of how many clients.
func (o *Order) Len() int { return len(o.waiters) }

// Clients returns how many clients have requests waiting.
func (o *Order) Clients() (n int) {
	for _, c := range o.clients {
		if c.waiting > 0 {
			n++
		}
	}
	return n
}

// Oldest returns when the request that waits longest came; false when none does.
func (o *Order) Oldest() (since time.Duration, ok bool) {
	if len(o.waiters) == 0 {
		return 0, false
	}
	return o.waiters[0].since, true
}

// Push makes w wait from now on. At the bound another may have to leave for it (out), or w itself is refused.
func (o *Order) Push(w *Waiter, now time.Duration) (out *Waiter, ok bool) {
	if len(o.waiters) >= o.rules.Max {
		if out = o.victim(w); out == nil {
			return nil, false
		}
		o.Remove(out)
	}
	o.seq++
	w.seq, w.since, w.client = o.seq, now, o.clients.enter(w.Client)
	o.waiters = append(o.waiters, w)
	return out, true
}

// victim returns who has less right to wait than w; nil if nobody has.
func (o *Order) victim(w *Waiter) (worst *Waiter) {
	if o.rules.FIFO {
		return nil
	}
	for _, v := range slices.Backward(o.waiters) { // the newest of equals
		if worst == nil || v.Priority < worst.Priority || v.Priority == worst.Priority && v.client.waiting > worst.client.waiting {
			worst = v
		}
	}
	if worst == nil || worst.Priority > w.Priority {
		return nil
	}
	if worst.Priority == w.Priority && worst.client.waiting <= o.clients.waiting(w.Client)+1 {
		return nil
	}
	return worst
}

// Remove takes w out; false if it does not wait here.
func (o *Order) Remove(w *Waiter) bool {
	if w.client == nil {
		return false
	}
	i, ok := slices.BinarySearchFunc(o.waiters, w.seq, func(v *Waiter, seq uint64) int { return cmp.Compare(v.seq, seq) })
	if !ok || o.waiters[i] != w {
		return false
	}
	o.waiters = slices.Delete(o.waiters, i, i+1)
	o.clients.leave(w.client)
	w.client = nil
	return true
}

// Pop takes out the request that goes first to the lane that key names, which is the data-parallel rank dp of its worker.
// It returns nil when none may go there. The lane is taken to have been given it.
func (o *Order) Pop(key any, dp int, now time.Duration) *Waiter {
	l := o.lane(key)
	w := o.overdue(dp, now)
	if w != nil {
		o.regular = 0
	} else if w = o.best(l, dp); w != nil {
		o.regular++
	} else {
		return nil
	}
	w.client.credit -= max(w.Tokens-tokensAt(l.depth(w.Branch)), 0) + requestTokens
	o.Remove(w)
	o.give(l, w.Branch)
	return w
}

// Give tells that the lane was given a request that did not come out of Pop for it.
func (o *Order) Give(key any, b Branch) { o.give(o.lane(key), b) }

// Retain forgets the lanes that keep does not name.
func (o *Order) Retain(keep func(key any) bool) {
	for key, l := range o.lanes {
		if !keep(key) {
			for _, b := range l.recent {
				l.remove(b, o.lost)
			}
			delete(o.lanes, key)
		}
	}
}

func (o *Order) give(l *lane, b Branch) { l.add(b, o.gained, o.lost) }

func (o *Order) gained(h uint64) { o.claimed[h]++ }

func (o *Order) lost(h uint64) {
	if o.claimed[h]--; o.claimed[h] == 0 {
		delete(o.claimed, h)
	}
}

func (o *Order) lane(key any) *lane {
	l := o.lanes[key]
	if l == nil {
		l = newLane()
		o.lanes[key] = l
	}
	return l
}

func (w *Waiter) fits(dp int) bool { return w.DP == AnyDP || w.DP == dp }

// overdue returns the request that has waited longest, where it is too long and its turn.
func (o *Order) overdue(dp int, now time.Duration) *Waiter {
	if o.rules.FIFO || o.regular < agedEvery-1 {
		return nil
	}
	for _, w := range o.waiters {
		if now-w.since < o.rules.MaxAge {
			return nil
		}
		if w.fits(dp) {
			return w
		}
	}
	return nil
}

// best returns who goes first by priority, turn, depth and time, in this order.
func (o *Order) best(l *lane, dp int) (best *Waiter) {
	top, rounds, found := o.top(dp)
	if !found {
		return nil
	}
	if o.rules.FIFO {
		i := slices.IndexFunc(o.waiters, func(w *Waiter) bool { return w.fits(dp) })
		return o.waiters[i]
	}
	if rounds > 0 {
		o.clients.refill(rounds)
	}
	deepest, alone := 0, false
	for _, w := range o.waiters {
		if w.Priority != top || w.client.credit <= 0 || !w.fits(dp) {
			continue
		}
		// Fast path: most share less than the best one.
		if best != nil && (len(w.Branch) < deepest || deepest > 0 && l.held[w.Branch[deepest-1]] == 0) {
			continue
		}
		depth := deepest
		for depth < len(w.Branch) && l.held[w.Branch[depth]] > 0 {
			depth++
		}
		free := depth == len(w.Branch) || o.claimed[w.Branch[depth]] == 0
		if best == nil || depth > deepest || free && !alone {
			best, deepest, alone = w, depth, free
		}
	}
	return best
}

// top returns the highest priority that waits for such a rank, and how many refills it takes until one of those has credit.
func (o *Order) top(dp int) (top, rounds int, found bool) {
	for _, w := range o.waiters {
		if !w.fits(dp) || found && w.Priority < top {
			continue
		}
		if r := w.client.rounds(); !found || w.Priority > top || r < rounds {
			top, rounds, found = w.Priority, r, true
		}
	}
	return top, rounds, found
}
