package queue_test

import (
	"slices"
	"time"

	"github.com/warmpath/warmpath/dataplane/routing/queue"
)

// naive decides as the package documentation says, from lists alone: it compares every branch
// with every other one.
type naive struct {
	rules   queue.Rules
	waiters []*naiveWaiter // in the order in which they came
	credit  map[uint64]int
	given   map[any][]queue.Branch // the last ones of each lane
	since   int                    // dispatches since one to an overdue request
	newest  bool
}

type naiveWaiter struct {
	*queue.Waiter
	came time.Duration
}

// The numbers of the rules, written down a second time.
const (
	naiveQuantum = 16384
	naiveRequest = 256
	naiveRecent  = 64
	naiveEvery   = 4
)

func newNaive(rules queue.Rules) *naive {
	return &naive{rules: rules, credit: map[uint64]int{}, given: map[any][]queue.Branch{}, since: naiveEvery - 1}
}

func (n *naive) waiting(client uint64) (count int) {
	for _, w := range n.waiters {
		if w.Client == client {
			count++
		}
	}
	return count
}

func (n *naive) push(w *queue.Waiter, now time.Duration) (out *queue.Waiter, ok bool) {
	if len(n.waiters) >= n.rules.Max {
		if n.rules.FIFO {
			return nil, false
		}
		lowest, most := n.waiters[0].Waiter, 0
		for _, v := range n.waiters {
			if n.above(lowest, v.Waiter) {
				lowest = v.Waiter
			}
		}
		for _, v := range n.waiters {
			if n.equal(v.Waiter, lowest) {
				most = max(most, n.waiting(v.Client))
			}
		}
		for _, v := range n.waiters { // the last one stays
			if n.equal(v.Waiter, lowest) && n.waiting(v.Client) == most {
				out = v.Waiter
			}
		}
		if n.above(lowest, w) || n.equal(lowest, w) && most <= n.waiting(w.Client)+1 {
			return nil, false
		}
		n.remove(out)
	}
	if _, known := n.credit[w.Client]; !known {
		n.credit[w.Client] = naiveQuantum
	}
	n.waiters = append(n.waiters, &naiveWaiter{w, now})
	return out, true
}

func (n *naive) patient(w *queue.Waiter) bool { return w.Patience > n.rules.Patient }

// above reports whether a's class is higher, equal whether it is the same.
func (n *naive) above(a, b *queue.Waiter) bool {
	return a.Priority > b.Priority || a.Priority == b.Priority && n.patient(b) && !n.patient(a)
}

func (n *naive) equal(a, b *queue.Waiter) bool { return !n.above(a, b) && !n.above(b, a) }

// stale is the oldest one of who has most, in the lowest class without patience.
func (n *naive) stale() (out *queue.Waiter) {
	most := 0
	for _, v := range n.waiters {
		switch {
		case n.patient(v.Waiter):
		case out == nil, n.above(out, v.Waiter), n.equal(out, v.Waiter) && n.waiting(v.Client) > most:
			out, most = v.Waiter, n.waiting(v.Client)
		}
	}
	return out
}

func (n *naive) remove(w *queue.Waiter) bool {
	before := len(n.waiters)
	n.waiters = slices.DeleteFunc(n.waiters, func(v *naiveWaiter) bool { return v.Waiter == w })
	return len(n.waiters) < before
}

func (n *naive) give(key any, b queue.Branch) {
	n.given[key] = append(n.given[key], b)
	if len(n.given[key]) > naiveRecent {
		n.given[key] = n.given[key][1:]
	}
}

// shared is the longest beginning of b that is one of any of the branches.
func shared(b queue.Branch, others []queue.Branch) (most int) {
	for _, o := range others {
		i := 0
		for i < len(b) && i < len(o) && b[i] == o[i] {
			i++
		}
		most = max(most, i)
	}
	return most
}

// tokensOf is how long a beginning with so many hashes is, counted one by one.
func tokensOf(hashes int) (units int) {
	for i := range hashes {
		units += 1 << (i / 16)
	}
	return units * 16
}

func (n *naive) pop(key any, dp int, now time.Duration) *queue.Waiter {
	var fit []*naiveWaiter
	for _, w := range n.waiters {
		if w.DP == queue.AnyDP || w.DP == dp {
			fit = append(fit, w)
		}
	}
	if len(fit) == 0 {
		return nil
	}
	var w *naiveWaiter
	overdue := slices.IndexFunc(fit, func(w *naiveWaiter) bool {
		return now-w.came >= max(n.rules.MaxAge, w.Patience/16) && (!n.newest || n.patient(w.Waiter))
	})
	switch {
	case n.rules.FIFO:
		w = fit[0]
		n.since++
	case overdue >= 0 && n.since >= naiveEvery-1:
		w = fit[overdue]
		n.since = 0
	default:
		w = n.best(key, fit)
		n.since++
	}
	n.credit[w.Client] -= max(w.Tokens-tokensOf(shared(w.Branch, n.given[key])), 0) + naiveRequest
	n.remove(w.Waiter)
	n.give(key, w.Branch)
	return w.Waiter
}

func (n *naive) best(key any, fit []*naiveWaiter) (best *naiveWaiter) {
	top := fit[0].Waiter
	for _, w := range fit {
		if n.above(w.Waiter, top) {
			top = w.Waiter
		}
	}
	fit = slices.DeleteFunc(fit, func(w *naiveWaiter) bool { return !n.equal(w.Waiter, top) })
	if n.newest && !n.patient(top) {
		slices.Reverse(fit)
	}
	has := func(w *naiveWaiter) bool { return n.credit[w.Client] > 0 }
	for !slices.ContainsFunc(fit, has) {
		for c := range n.credit {
			n.credit[c] = min(n.credit[c]+naiveQuantum, naiveQuantum)
		}
	}
	var elsewhere []queue.Branch
	for k, given := range n.given {
		if k != key {
			elsewhere = append(elsewhere, given...)
		}
	}
	depth := func(w *naiveWaiter) int { return shared(w.Branch, n.given[key]) }
	alone := func(w *naiveWaiter) int {
		if shared(w.Branch, elsewhere) > depth(w) {
			return 0
		}
		return 1
	}
	for _, w := range fit {
		if has(w) && (best == nil || depth(w) > depth(best) || depth(w) == depth(best) && alone(w) > alone(best)) {
			best = w
		}
	}
	return best
}
