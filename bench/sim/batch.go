package sim

import (
	"context"
	"time"
)

// piece is a request's share of one prefill batch.
type piece struct {
	r      *request
	tokens int
}

// prefillBatch takes requests from the queue, in order, as long as they fit into
// the batch, the running set and the KV pool. SGLang, too, prefills whenever it
// can and decodes otherwise.
func (k *rank) prefillBatch() (b []piece) {
	budget := k.cfg.Service.ChunkedPrefill
	if r := k.chunked; r != nil {
		k.chunked = nil
		b = k.take(b, r, &budget)
	}
	for len(k.waiting) > 0 && k.chunked == nil && budget >= k.cfg.PageSize &&
		len(k.running)+len(b) < k.cfg.MaxRunning && k.admit(k.waiting[0]) {
		r := k.waiting[0]
		k.waiting[0] = nil
		k.waiting = k.waiting[1:]
		b = k.take(b, r, &budget)
	}
	return b
}

// take adds as much of r's prompt to the batch as budget allows. What does not
// fit is the next batch's, cut at a page so that whole pages enter the cache.
func (k *rank) take(b []piece, r *request, budget *int) []piece {
	n := len(r.prompt) - r.computed
	if n > *budget {
		n = *budget - (r.computed+*budget)%k.cfg.PageSize
		k.chunked = r
	}
	*budget -= n
	k.allot(r, r.computed+n)
	return append(b, piece{r, n})
}

// admit finds r's cached prefix, locks it and promises r the pages it will need.
// It returns false, with nothing changed, if the pool cannot promise them now.
func (k *rank) admit(r *request) bool {
	findable := r.findable()
	if k.cfg.NoCache {
		findable = 0
	}
	last, pages := k.cache.match(r.space, r.prompt[:findable])
	k.cache.lock(last)
	need := k.pagesOf(r.most()) - pages
	if need > k.free()+k.cache.evictablePages()-k.owed {
		k.cache.unlock(last)
		return false
	}
	k.owed += need
	r.lock, r.inTree, r.allotted, r.admitted = last, pages, pages, true
	r.computed = pages * k.cfg.PageSize
	r.mu.Lock()
	r.cached, r.times.scheduled = r.computed, time.Now()
	r.mu.Unlock()
	return true
}

// free is how many pages nobody holds.
func (k *rank) free() int { return k.cfg.CachePages - k.cache.pages - k.private }

// pagesOf is how many pages n tokens need.
func (k *rank) pagesOf(n int) int { return (n + k.cfg.PageSize - 1) / k.cfg.PageSize }

// allot gives r the pages for its first n tokens, evicting where none is free.
// admit has made sure that there are enough.
func (k *rank) allot(r *request, n int) {
	more := k.pagesOf(n) - r.allotted
	if more <= 0 {
		return
	}
	if short := more - k.free(); short > 0 {
		k.cache.evict(short)
	}
	r.allotted += more
	k.private += more
	k.owed -= more
}

// store puts the whole pages of r's first n tokens into the cache and moves r's
// lock there. Pages that another request has stored meanwhile are not kept twice.
func (k *rank) store(r *request, n int) {
	if k.cacheless() {
		return
	}
	last, _ := k.cache.insert(r.space, r.all(n))
	if last == nil {
		return
	}
	k.cache.lock(last)
	k.cache.unlock(r.lock)
	pages := n / k.cfg.PageSize
	k.private -= pages - r.inTree
	r.lock, r.inTree = last, pages
}

// runPrefill computes one prefill batch.
func (k *rank) runPrefill(ctx context.Context, b []piece) {
	tokens := 0
	for _, p := range b {
		tokens += p.tokens
	}
	d := k.cfg.Service.prefill(tokens)
	k.observePrefill(b)
	if !k.spend(ctx, d) {
		return
	}
	k.count.prefilled += tokens
	k.count.prefillBusy += k.pace.wall(time.Duration(float64(d) * k.faults.slowdown() / k.faults.busyBehind()))
	now := time.Now()
	for _, p := range b {
		k.prefilled(p, now)
	}
	k.publish()
}

// prefilled takes note that a piece's keys and values are there.
func (k *rank) prefilled(p piece, now time.Time) {
	r := p.r
	r.computed += p.tokens
	k.store(r, r.computed)
	switch {
	case r == k.chunked:
		k.ship(r)
	case r.leg != nil:
		k.handOver(r, now)
	case r.planned == 0:
		k.finish(r, finish{kind: "length"})
	default:
		k.step(r, now)
		if r.reason.kind == "" {
			k.running = append(k.running, r)
		}
		r.signal() // the first token is never held back
	}
}

// runDecode makes one decode step of all running requests.
func (k *rank) runDecode(ctx context.Context) {
	tokens := 0
	for _, r := range k.running {
		k.allot(r, r.total())
		tokens += r.total()
	}
	if !k.spend(ctx, k.cfg.Service.decode(len(k.running), tokens)) {
		return
	}
	now := time.Now()
	keep := k.running[:0]
	for _, r := range k.running {
		if k.step(r, now); r.reason.kind == "" {
			keep = append(keep, r)
		}
	}
	clear(k.running[len(keep):])
	k.running = keep
	k.steps++
	if k.steps%publishEvery == 0 {
		k.publish()
	}
}

// step generates r's next token.
func (k *rank) step(r *request, now time.Time) {
	k.count.generated++
	if r.generate(now) {
		k.release(r)
		return
	}
	if r.stream && !r.dirty {
		r.dirty = true
		k.dirty = append(k.dirty, r)
	}
}

// finish ends r for a reason that is not in its tokens.
func (k *rank) finish(r *request, f finish) {
	r.end(f, time.Now())
	k.release(r)
}

// release enters what r has computed into the cache, gives its pages back and
// tells its handler.
func (k *rank) release(r *request) {
	if r.admitted {
		k.store(r, r.kv())
		k.cache.unlock(r.lock)
		k.private -= r.allotted - r.inTree
		k.owed -= k.pagesOf(r.most()) - r.allotted
		r.lock = nil
	}
	k.count.finish(r)
	r.signal()
}
