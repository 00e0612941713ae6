package policies

import (
	"container/heap"
	"math"
)

// belady is the offline optimum of eviction: with so many pages of memory it drops those first
// that are needed again last, and does not keep a page that would be. Where every page is a
// unit of its own and may be left out, no rule of eviction finds more (Belady, 1966).
//
// It bounds the hits of all workers together if the memory is theirs as one pool: no page is
// there twice, none is held for a running request, and a prompt is there for the next request at
// once. The requests come in the order of their arrival; a queue with another order may find
// more. That eviction keeps prefixes whole only takes from it.
type belady struct {
	plan  *plan
	room  int
	held  []int32 // pages of each node
	next  []int32 // place of the next request that needs each node; math.MaxInt32: none
	later laterHeap
	used  int
	hit   float64
	all   float64
}

// later is a node with the place of its next use.
type later struct{ next, node int32 }

// laterHeap has the latest next use first.
type laterHeap []later

func (h laterHeap) Len() int { return len(h) }

func (h laterHeap) Less(i, j int) bool {
	if h[i].next != h[j].next {
		return h[i].next > h[j].next
	}
	return h[i].node > h[j].node
}

func (h laterHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

func (h *laterHeap) Push(x any) {
	l, _ := x.(later)
	*h = append(*h, l)
}

func (h *laterHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// beladyHits is the share of the counted requests' prompt tokens that the best eviction finds.
func beladyHits(p *plan, order []*job, counts func(i int) bool, pages int) float64 {
	b := &belady{plan: p, room: pages, held: make([]int32, len(p.nodes)), next: make([]int32, len(p.nodes))}
	for i := range b.next {
		b.next[i] = math.MaxInt32
	}
	uses := make([][]int32, len(order))
	for i := len(order) - 1; i >= 0; i-- {
		path := order[i].path
		uses[i] = make([]int32, len(path))
		for k, n := range path {
			uses[i][k], b.next[n] = b.next[n], int32(i)
		}
	}
	for i, j := range order {
		b.use(j, uses[i], counts(i))
	}
	return ratio(b.hit, b.all)
}

// use looks j's prompt up and keeps its pages, with the places of their next uses.
func (b *belady) use(j *job, next []int32, counts bool) {
	usable := int32((j.input - 1) / b.plan.page)
	for k, n := range j.path {
		if counts {
			b.hit += float64(min(b.held[n], max(b.plan.need(n, usable), 0))) * float64(b.plan.page)
		}
		keep := max(b.held[n], b.plan.need(n, j.pages))
		if next[k] == math.MaxInt32 {
			keep = 0
		} else {
			heap.Push(&b.later, later{next[k], n})
		}
		b.used += int(keep - b.held[n])
		b.held[n], b.next[n] = keep, next[k]
	}
	if counts {
		b.all += float64(j.input)
	}
	for b.used > b.room {
		top := b.later[0]
		if b.held[top.node] == 0 || b.next[top.node] != top.next {
			heap.Pop(&b.later)
			continue
		}
		drop := min(b.held[top.node], int32(b.used-b.room))
		b.held[top.node] -= drop
		b.used -= int(drop)
	}
}

// yardsticks are bounds of hits in the order in which the requests of a run came: with memory
// without an end, and with that of all workers as one pool.
func (a *arrivals) yardsticks() (endlessHits, beladyShare float64) {
	e, came := endless{plan: a.plan, cache: newCache(a.plan, nil)}, a.inOrder()
	order := make([]*job, len(came))
	for i, t := range came {
		e.enter(t.job, a.measured(t))
		order[i] = t.job
	}
	return ratio(e.hit, e.all), beladyHits(a.plan, order, func(i int) bool { return a.measured(came[i]) }, a.cfg.memory())
}

// placed is the share of prompt tokens that the best eviction finds where each request goes to the
// worker that it went to.
func (a *arrivals) placed() float64 {
	hit, all := 0.0, 0.0
	byWorker := make([][]*task, len(a.workers))
	for _, t := range a.inOrder() {
		if t.worker >= 0 {
			byWorker[t.worker] = append(byWorker[t.worker], t)
		}
	}
	for _, some := range byWorker {
		order, tokens := make([]*job, len(some)), 0.0
		for i, t := range some {
			if order[i] = t.job; a.measured(t) {
				tokens += float64(t.input)
			}
		}
		share := beladyHits(a.plan, order, func(i int) bool { return a.measured(some[i]) }, a.cfg.memory()/len(a.targets()))
		hit, all = hit+share*tokens, all+tokens
	}
	return ratio(hit, all)
}
