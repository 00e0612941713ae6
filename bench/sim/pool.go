package sim

import "time"

// kvPool is the KV memory of a rank: the pages of its prefix cache and the pages that requests
// hold outside it.
type kvPool struct {
	cfg     *Config
	cache   *cache
	private int // Pages that requests hold outside the cache.
	owed    int // Pages promised to admitted requests and not yet allotted.
}

// admit finds and locks r's cached prefix and promises r the pages for the rest. It returns
// false, with nothing changed, if the pool cannot promise them now.
func (p *kvPool) admit(r *request) bool {
	findable := r.findable()
	if p.cfg.NoCache {
		findable = 0
	}
	last, pages := p.cache.match(r.domain, r.prompt[:findable])
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

// free returns the number of free pages.
func (p *kvPool) free() int { return p.cfg.CachePages - p.cache.pages - p.private }

// pagesOf returns the number of pages for n tokens.
func (p *kvPool) pagesOf(n int) int { return (n + p.cfg.PageSize - 1) / p.cfg.PageSize }

// allot gives r the pages for its first n tokens, evicting if necessary. admit has promised them.
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

// store inserts the whole pages of r's first n tokens into the cache and moves r's lock there.
// Pages that another request has stored meanwhile are not stored twice.
func (p *kvPool) store(r *request, n int) {
	if p.cfg.cacheless() {
		return
	}
	last, _ := p.cache.insert(r.domain, r.all(n))
	if last == nil {
		return
	}
	p.cache.lock(last)
	p.cache.unlock(r.lock)
	pages := n / p.cfg.PageSize
	p.private -= pages - r.inTree
	r.lock, r.inTree = last, pages
}

// release stores r's computed pages in the cache and takes back all pages of r.
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
