package policies

import "slices"

// prefillBatch takes requests from the queue, in order, as long as they fit into the batch, the
// running set and the pool.
func (w *worker) prefillBatch(b []piece) []piece {
	budget := w.costs.chunk
	if t := w.chunked; t != nil {
		w.chunked = nil
		b = w.take(b, t, &budget)
	}
	for next := w.next(); next >= 0 && w.chunked == nil && budget >= w.plan.page &&
		len(w.running)+len(b) < w.costs.running && w.admit(w.waiting[next]); next = w.next() {
		t := w.waiting[next]
		if next == 0 {
			w.waiting[0] = nil
			w.waiting = w.waiting[1:]
		} else {
			w.waiting = slices.Delete(w.waiting, next, next+1)
		}
		b = w.take(b, t, &budget)
	}
	return b
}

// next is the first of the waiting requests that waits for nothing else; -1 is none.
func (w *worker) next() int {
	return slices.IndexFunc(w.waiting, func(t *task) bool { return t.ready <= w.began })
}

// take adds as much of t's prompt to the batch as budget allows; the rest, cut at a page, is
// the next batch's.
func (w *worker) take(b []piece, t *task, budget *int) []piece {
	n := t.input - t.computed
	if n > *budget {
		n = *budget - (t.computed+*budget)%w.plan.page
		w.chunked = t
	}
	*budget -= n
	t.computed += n
	return append(b, piece{t, n})
}

// admit finds t's cached prefix, locks it and gives t the pages for the rest of its prompt and
// for its answer, evicting where none is free. It returns false, with nothing changed, if the
// pool cannot give them now.
func (w *worker) admit(t *task) bool {
	usable := w.usable(t.job)
	held := w.cache.match(t.path, usable)
	locks := w.cache.lock(t.path, 0, held)
	need := w.pagesOf(w.length(t.job)) - held
	free := w.free()
	if need > free+w.cache.evictable() {
		w.cache.unlock(t.path, locks)
		return false
	}
	w.cache.touch(t.path, held)
	if need > free {
		w.counts.evicted += int64(w.cache.evict(need - free))
	}
	loaded := int32(0)
	if w.host != nil {
		loaded = w.host.fetch(t.path, usable, held)
	}
	if w.nodeTier != nil {
		w.nodeTier.settle(w.began)
		loaded += w.nodeTier.fetch(t.path, usable, held+loaded)
	}
	t.locks, t.inTree, t.owned = locks, held, need
	t.cached, t.hosted = int(held)*w.plan.page, int(loaded)*w.plan.page
	t.computed, t.load = t.cached+t.hosted, t.hosted
	w.taken += need
	return true
}

// store puts t's first pages pages into the cache and locks them. Pages that another request
// has stored meanwhile are not kept twice.
func (w *worker) store(t *task, pages int32) {
	w.cache.insert(t.path, pages)
	t.locks = w.cache.lock(t.path, t.locks, pages)
	w.taken -= pages - t.inTree
	t.owned -= pages - t.inTree
	t.inTree = pages
	if w.host != nil {
		w.host.store(t.path, pages)
	}
	if w.nodeTier != nil {
		w.nodeTier.store(t.path, pages)
	}
}

// prefilled ends the prefill batch under way.
func (w *worker) prefilled(now clock, done func(t *task, now clock)) {
	for _, p := range w.batch {
		t := p.task
		w.store(t, int32(t.computed/w.plan.page))
		if t == w.chunked {
			continue
		}
		t.made, t.first, t.last = 1, now, now
		w.counts.generated++
		if w.role == prefills {
			w.handoff(t)
			done(t, now)
			continue
		}
		if t.made < t.output {
			done(t, now)
			w.running = append(w.running, t)
			continue
		}
		w.finish(t, now, done)
	}
}

// finish stores t's pages in the cache and frees the others.
func (w *worker) finish(t *task, now clock, done func(t *task, now clock)) {
	w.store(t, t.pages)
	w.cache.unlock(t.path, t.locks)
	w.taken -= t.owned
	t.owned, t.locks, t.ended = 0, 0, now
	w.counts.requests++
	done(t, now)
}

// handoff ends t's prompt at a worker that only computes prompts.
func (w *worker) handoff(t *task) {
	w.cache.unlock(t.path, t.locks)
	w.taken -= t.owned
	t.owned, t.locks = 0, 0
	w.counts.requests++
}

// join adds requests with complete pages to the running batch, as room allows.
func (w *worker) join(now clock, done func(t *task, now clock)) {
	for len(w.waiting) > 0 && len(w.running) < w.costs.running {
		t := w.waiting[0]
		need := w.pagesOf(t.input + t.output)
		if need > w.free() {
			return
		}
		w.waiting = slices.Delete(w.waiting, 0, 1)
		w.taken += need
		t.owned, t.first, t.last = need, now, now
		if t.made < t.output {
			w.running = append(w.running, t)
			continue
		}
		w.leave(t, now, done)
	}
}

// leave ends t at a worker that only decodes: its pages are of no use to the next prompt there.
func (w *worker) leave(t *task, now clock, done func(t *task, now clock)) {
	w.taken -= t.owned
	t.owned, t.ended = 0, now
	w.counts.requests++
	done(t, now)
}

// tier is the host memory of a worker: a copy of every page that the GPU computed, as HiCache's
// write-through keeps it, with its own order of use.
type tier struct {
	cache *cache
	pool  int32
}

// fetch returns how many pages behind the first held ones of path come from host memory.
func (h *tier) fetch(path []int32, usable, held int32) int32 {
	n := h.cache.match(path, usable)
	h.cache.touch(path, n)
	return max(n-held, 0)
}

// store copies the first pages pages of path to host memory; a path that does not fit is cut.
func (h *tier) store(path []int32, pages int32) {
	pages = min(pages, h.pool)
	if short := pages - h.cache.match(path, pages) - (h.pool - h.cache.pages); short > 0 {
		h.cache.touch(path, pages)
		locks := h.cache.lock(path, 0, h.cache.match(path, pages))
		h.cache.evict(short)
		h.cache.unlock(path, locks)
	}
	h.cache.insert(path, min(pages, h.cache.match(path, pages)+h.pool-h.cache.pages))
}
