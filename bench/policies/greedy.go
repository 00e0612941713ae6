package policies

import (
	"cmp"
	"slices"
)

// greedy is the all-knowing router. It picks the worker with the lowest predicted time to first
// token plus the time of the tokens to compute, which later requests wait for. It knows the
// caches, queues, running batches and the lengths of answers.
type greedy struct {
	*run
	forecast
}

func (s *greedy) pick(t *task) int {
	best, lowest := -1, never
	w := &s.forecast
	for i, at := range s.targets() {
		w.worker = at
		if !w.fits(t.job) {
			continue
		}
		uncached, copied, ready := w.expect(t, s.time.now)
		miss := clock(uncached) * w.costs.prefillToken
		begin := max(w.freeAt(s.time.now), w.roomAt(s.time.now, t, uncached), ready)
		cost := begin - s.time.now + w.prefillTime(w.queued()+uncached) + clock(copied)*w.costs.hostToken + miss
		if cost < lowest {
			best, lowest = i, cost
		}
	}
	w.worker = s.workers[best]
	t.uncached, _, _ = w.expect(t, s.time.now)
	return best
}

// forecast predicts a worker's next steps.
type forecast struct {
	*worker
	ending []*task // scratch of roomAt
}

// roomAt is when running requests will have given back the pages that the queue and t need, or
// have made room in the batch: a step is taken to last as long as the one under way.
func (w *forecast) roomAt(now clock, t *task, uncached int) clock {
	need, places := w.pagesOf(uncached+t.output), 1+len(w.running)+len(w.batch)-w.costs.running
	for _, other := range w.waiting {
		need += w.pagesOf(other.uncached + other.output)
		places++
	}
	short := need - w.free() - w.cache.evictable()
	if (short <= 0 && places <= 0) || len(w.running) == 0 {
		return now
	}
	w.ending = append(w.ending[:0], w.running...)
	slices.SortFunc(w.ending, func(a, b *task) int { return cmp.Compare(a.output-a.made, b.output-b.made) })
	left, context := 0, int64(0)
	for _, r := range w.ending {
		context += int64(r.input + r.made)
	}
	for _, r := range w.ending {
		left = r.output - r.made
		short -= r.owned + w.pagesOf(r.input-r.cached)
		places--
		if short <= 0 && places <= 0 {
			break
		}
	}
	return now + w.costs.decode(len(w.running), context, left)
}

// prefillTime is the time of tokens in full batches.
func (w *forecast) prefillTime(tokens int) clock {
	batches := (tokens + w.costs.chunk - 1) / w.costs.chunk
	return clock(batches)*w.costs.prefillBase + clock(tokens)*w.costs.prefillToken
}

// freeAt is when the batch or the decode step under way ends.
func (w *forecast) freeAt(now clock) clock {
	switch {
	case w.idle:
		return now
	case w.steps > 0:
		n := w.costs.stepsBy(len(w.running), w.context, now-w.began, w.steps)
		return w.began + w.costs.decode(len(w.running), w.context, n)
	}
	return max(w.until, now)
}

// queued is how many tokens the requests before a new one have yet to compute.
func (w *forecast) queued() (n int) {
	for _, t := range w.waiting {
		n += t.uncached
	}
	if w.chunked != nil {
		n += w.chunked.input - w.chunked.computed
	}
	return n
}

// expect returns the tokens that t will compute, by the cache and the prompts being computed,
// and the tokens copied from host memory, the worker's and the node's; ready is the time when
// those are there.
func (w *forecast) expect(t *task, now clock) (uncached, copied int, ready clock) {
	usable := w.usable(t.job)
	held := w.cache.match(t.path, usable)
	for _, other := range w.waiting {
		held = max(held, w.plan.shared(t, other, usable))
	}
	if w.chunked != nil {
		held = max(held, w.plan.shared(t, w.chunked, usable))
	}
	for _, p := range w.batch {
		held = max(held, w.plan.shared(t, p.task, usable))
	}
	hosted := int32(0)
	if w.host != nil {
		hosted = max(w.host.cache.match(t.path, usable)-held, 0)
	}
	ready = now
	if w.nodeTier != nil {
		have, soon, _, upto := w.nodeTier.supply(w.worker, t, now)
		if upto > have {
			soon = max(soon, w.nodeTier.arrival(upto-have, now))
		}
		if upto > held+hosted {
			hosted, ready = upto-held, soon
		}
	}
	return t.input - int(held+hosted)*w.plan.page, int(hosted) * w.plan.page, ready
}

// shared is how many of t's first usable pages another prompt has too.
func (p *plan) shared(t, other *task, usable int32) (n int32) {
	limit := min(usable, int32(other.input/p.page))
	for i, at := range t.path {
		if i >= len(other.path) || other.path[i] != at {
			break
		}
		n = min(p.nodes[at].start+p.nodes[at].pages, limit)
	}
	return n
}
