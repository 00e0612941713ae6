package queue

// best is a search for the request that shares the longest beginning with a rank's recent
// requests. The order has requests of one branch next to each other, so most of them need one
// comparison, and whole branches that the rank is not in none.
type best struct {
	order *Order
	rank  *recent

	waiter *Waiter
	depth  int  // leading hashes that waiter shares with the rank
	alone  bool // no other rank is in waiter's branch
	rounds int  // refills until a client without credit has some; 0: there is none

	last   Branch // of the request that was compared last
	missed int    // leading hashes of last until one that the rank does not have
	misses int    // requests since then that share it
}

// manyMisses of one branch in a row are worth a look-up of the next branch.
const manyMisses = 16

// search looks at the requests of the highest class that may go to dp.
func (b *best) search(dp int) {
	found, top := false, class{}
	look := func(w *Waiter) bool {
		if found && w.class != top {
			return false
		}
		if !w.fits(dp) {
			return true
		}
		found, top = true, w.class
		if w.client.credit > 0 {
			return b.consider(w)
		}
		if r := w.client.rounds(); b.rounds == 0 || r < b.rounds {
			b.rounds = r
		}
		return true
	}
	b.order.waiting.Scan(look)
	next := &b.order.next
	for next.class = top; b.misses > manyMisses; {
		b.misses = 0
		next.Branch = append(append(next.Branch[:0], b.last[:b.missed-1]...), b.last[b.missed-1]+1)
		b.order.waiting.Ascend(next, look)
	}
}

// consider compares a request with the best one so far. false: many of the next ones share
// less.
func (b *best) consider(w *Waiter) bool {
	if b.waiter == nil {
		b.waiter = w
		b.depth, b.alone = b.match(w, 0)
		return true
	}
	newest := b.order.newest && !w.class.patient
	if n := len(w.Branch); !newest && n > 0 && n == len(b.last) && w.Branch[n-1] == b.last[n-1] && b.missed == 0 {
		return true // the same branch, and later
	}
	if b.missed > 0 && len(w.Branch) >= b.missed && w.Branch[b.missed-1] == b.last[b.missed-1] {
		b.misses++
		return b.misses <= manyMisses || b.last[b.missed-1] == 1<<64-1
	}
	b.last, b.missed, b.misses = w.Branch, 0, 0
	if len(w.Branch) < b.depth {
		return true
	}
	if b.depth > 0 && b.rank.counts[w.Branch[b.depth-1]] == 0 {
		b.missed = 1 + b.rank.depth(w.Branch)
		return true
	}
	depth, alone := b.match(w, b.depth)
	if depth > b.depth || alone && !b.alone || alone == b.alone && (w.seq > b.waiter.seq) == newest {
		b.waiter, b.depth, b.alone = w, depth, alone
	}
	return true
}

// match returns the leading hashes that w shares with the rank, at least from, and whether no
// other rank is in its branch.
func (b *best) match(w *Waiter, from int) (depth int, alone bool) {
	depth = from + b.rank.depth(w.Branch[from:])
	return depth, depth == len(w.Branch) || b.order.claims[w.Branch[depth]] == 0
}
