package policies

// view is one replica's knowledge of the workers' caches: by events, late, and by its own requests
// in flight.
type view struct {
	plan    *plan
	rows    [][]known // by node, then by worker; nil: no worker has any
	workers int
	queue   []change // events under way, by time of arrival
	head    int
	tokens  []int64 // held by each worker, as far as is known
}

// known is the known part of one node at one worker, in pages.
type known struct {
	held  int32 // by events
	host  int32 // by events, in host memory
	sent  int32 // requests in flight there that will have it
	pages int32 // the most of it that one of them has
}

// change is an event: a worker holds so many pages of a node from now on.
type change struct {
	at           clock
	worker, node int32
	held         int32
	host         bool // in host memory
}

func newView(p *plan, workers int) *view {
	return &view{plan: p, rows: make([][]known, len(p.nodes)), workers: workers, tokens: make([]int64, workers)}
}

func (v *view) row(n int32) []known {
	if v.rows[n] == nil {
		v.rows[n] = make([]known, v.workers)
	}
	return v.rows[n]
}

// expect queues an event that arrives at at; delays are constant, so the queue is in order.
func (v *view) expect(c change) { v.queue = append(v.queue, c) }

// catchUp applies the events that have arrived by now.
func (v *view) catchUp(now clock) {
	for v.head < len(v.queue) && v.queue[v.head].at <= now {
		c := &v.queue[v.head]
		if c.host {
			v.row(c.node)[c.worker].host = c.held
		} else {
			v.set(c.worker, c.node, c.held)
		}
		v.head++
	}
	if v.head > 1024 && v.head*2 > len(v.queue) {
		v.queue = v.queue[:copy(v.queue, v.queue[v.head:])]
		v.head = 0
	}
}

func (v *view) set(worker, n, held int32) {
	k := &v.row(n)[worker]
	v.tokens[worker] += int64(held-k.held) * int64(v.plan.page)
	k.held = held
}

// predict adds (or, with -1, takes back) a request in flight at a worker, with a prompt of
// pages pages.
func (v *view) predict(worker int32, path []int32, pages, by int32) {
	for _, n := range path {
		need := v.plan.need(n, pages)
		if need <= 0 {
			return
		}
		k := &v.row(n)[worker]
		if k.sent += by; k.sent == 0 {
			k.pages = 0
		} else {
			k.pages = max(k.pages, need)
		}
	}
}

// overlap is a worker's part of a prompt, in pages.
type overlap struct {
	held int32 // on the GPU
	any  int32 // there or in host memory
	soon int32 // the same after its requests in flight
	open uint8 // of these, those that may still grow
}

const (
	openHeld = 1 << iota
	openAny
	openSoon
)

// match fills into (one for each worker) with the part of path's first pages pages that each of
// them holds, and will hold after its requests in flight.
func (v *view) match(into []overlap, path []int32, pages int32) {
	for i := range into {
		into[i] = overlap{open: openHeld | openAny | openSoon}
	}
	for _, n := range path {
		need := v.plan.need(n, pages)
		if need <= 0 || v.rows[n] == nil {
			return
		}
		all, open := v.plan.nodes[n].pages, uint8(0)
		for i := range into {
			if into[i].open != 0 {
				into[i].grow(&v.rows[n][i], need, all)
				open |= into[i].open
			}
		}
		if open == 0 {
			return
		}
	}
}

// grow adds a node of all pages, of which need belong to the prompt.
func (o *overlap) grow(k *known, need, all int32) {
	step := func(bit uint8, n int32, sum *int32) {
		if o.open&bit == 0 {
			return
		}
		*sum += min(n, need)
		if n < all {
			o.open &^= bit
		}
	}
	step(openHeld, k.held, &o.held)
	step(openAny, max(k.held, k.host), &o.any)
	step(openSoon, max(k.held, k.pages), &o.soon)
}
