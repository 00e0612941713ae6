package sim

import "time"

// kvPool is the KV memory of a rank: the pages of the prefix cache and those that requests hold
// outside it.
type kvPool struct {
	cfg     *Config
	cache   *cache
	private int // Pages that requests hold outside the cache.
	owed    int // Pages promised to admitted requests and not yet allotted.
}

// admit finds r's cached prefix, locks it and promises r the pages it will need.
// It returns false, with nothing changed, if the pool cannot promise them now.
func (p *kvPool) admit(r *request) bool {
	findable := r.findable()
	if p.cfg.NoCache {
		findable = 0
	}
	last, pages := p.cache.match(r.space, r.prompt[:findable])
	p.cache.lock(last)
	need := p.pagesOf(r.most()) - pages
	if need > p.free()+p.cache.evictablePages()-p.owed {
		p.cache.unlock(last)
		return false
	}
	p.owed += need
	r.lock, r.inTree, r.allotted, r.admitted = last, pages, pages, true
	r.computed = pages * p.cfg.PageSize
	r.mu.Lock()
	r.cached, r.times.scheduled = r.computed, time.Now()
	r.mu.Unlock()
	return true
}

// free is how many pages nobody holds.
func (p *kvPool) free() int { return p.cfg.CachePages - p.cache.pages - p.private }

// pagesOf is how many pages n tokens need.
func (p *kvPool) pagesOf(n int) int { return (n + p.cfg.PageSize - 1) / p.cfg.PageSize }

// allot gives r the pages for its first n tokens, evicting where none is free.
// admit has made sure that there are enough.
func (p *kvPool) allot(r *request, n int) {
	more := p.pagesOf(n) - r.allotted
	if more <= 0 {
		return
	}
	if short := more - p.free(); short > 0 {
		p.cache.evict(short)
	}
	r.allotted += more
	p.private += more
	p.owed -= more
}

// store puts the whole pages of r's first n tokens into the cache and moves r's
// lock there. Pages that another request has stored meanwhile are not kept twice.
func (p *kvPool) store(r *request, n int) {
	if p.cfg.cacheless() {
		return
	}
	last, _ := p.cache.insert(r.space, r.all(n))
	if last == nil {
		return
	}
	p.cache.lock(last)
	p.cache.unlock(r.lock)
	pages := n / p.cfg.PageSize
	p.private -= pages - r.inTree
	r.lock, r.inTree = last, pages
}

// release stores the pages that r has computed and takes back all that r holds.
func (p *kvPool) release(r *request) {
	if !r.admitted {
		return
	}
	p.store(r, r.kv())
	p.cache.unlock(r.lock)
	p.private -= r.allotted - r.inTree
	p.owed -= p.pagesOf(r.most()) - r.allotted
	r.lock = nil
}

// held returns the number of pages that requests lock, hold or were promised.
func (p *kvPool) held() int { return p.cache.locked + p.private + p.owed }
