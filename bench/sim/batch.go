package sim

import (
	"cmp"
	"context"
	"time"
)

// batchShare is a request's share of one prefill batch.
type batchShare struct {
	r      *request
	tokens int
}

// prefillBatch takes requests from the queue in order while they fit into the batch, the
// running set and the KV pool. SGLang, too, prefers prefill to decode.
func (k *rank) prefillBatch() (b []batchShare) {
	budget := k.cfg.Service.ChunkedPrefill
	if r := k.chunked; r != nil {
		k.chunked = nil
		b = k.take(b, r, &budget)
	}
	for len(k.waiting) > 0 && k.chunked == nil && budget >= k.cfg.PageSize &&
		len(k.running)+len(b) < k.cfg.MaxRunning && k.pool.admit(k.waiting[0]) {
		r := k.waiting[0]
		k.waiting[0] = nil
		k.waiting = k.waiting[1:]
		b = k.take(b, r, &budget)
	}
	return b
}

// take adds as much of r's prompt to the batch as budget allows. The rest goes into the next
// batch; the cut is at a page, so that whole pages enter the cache.
func (k *rank) take(b []batchShare, r *request, budget *int) []batchShare {
	n := len(r.prompt) - r.computed
	if n > *budget {
		n = *budget - (r.computed+*budget)%k.cfg.PageSize
		k.chunked = r
	}
	*budget -= n
	k.pool.allot(r, r.computed+n)
	return append(b, batchShare{r, n})
}

// runPrefill computes one prefill batch.
func (k *rank) runPrefill(ctx context.Context, b []batchShare) {
	tokens := 0
	for _, p := range b {
		tokens += p.tokens
	}
	d := k.cfg.Service.prefill(tokens)
	k.report.observePrefill(b)
	if !k.spend(ctx, d) {
		return
	}
	k.count.prefilled += tokens
	k.count.prefillBusy += k.clock.wall(time.Duration(float64(d) * k.faults.slowdown() / cmp.Or(k.faults.state().busy, 1)))
	now := time.Now()
	for _, p := range b {
		k.prefilled(p, now)
	}
	k.publish()
}

// prefilled handles a share with computed keys and values.
func (k *rank) prefilled(p batchShare, now time.Time) {
	r := p.r
	r.computed += p.tokens
	k.pool.store(r, r.computed)
	switch {
	case r == k.chunked:
		k.legs.send(r)
	case r.leg != nil:
		k.legs.handOver(r, now)
	case r.planned == 0:
		k.finish(r, finishReason{kind: "length"})
	default:
		k.step(r, now)
		if r.reason.kind == "" {
			k.running = append(k.running, r)
		}
		r.signal() // The first token is never delayed.
	}
}

// runDecode makes one decode step of all running requests.
func (k *rank) runDecode(ctx context.Context) {
	tokens := 0
	for _, r := range k.running {
		k.pool.allot(r, r.total())
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
	if r.stream && !r.changed {
		r.changed = true
		k.changed = append(k.changed, r)
	}
}

// finish ends r for a reason outside its tokens.
func (k *rank) finish(r *request, f finishReason) {
	r.end(f, time.Now())
	k.release(r)
}

// release gives r's pages back and tells its handler.
func (k *rank) release(r *request) {
	k.pool.release(r)
	k.count.finish(r)
	r.signal()
}
