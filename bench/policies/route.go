package policies

import "github.com/warmpath/warmpath/dataplane/routing/policy"

// route lets replica r choose t's worker and counts it there.
func (s *run) route(r *replica, t *task) {
	usable := int32((t.input - 1) / s.page)
	r.take(s.time.now)
	if r.trees == nil {
		r.view.catchUp(s.time.now)
	}
	r.view.match(r.overlaps, t.path, usable)
	s.pickFor(r, t)
	s.spread(t, noteSent)
	s.expectOf(r, t)
}

// pickFor lets r choose t's worker by r.overlaps.
func (s *run) pickFor(r *replica, t *task) {
	stored := s.tiers.stored(r, t)
	home, own := r.sessions.Home(t.branch)
	t.held = 0
	for i := range r.candidates {
		r.candidates[i] = s.candidate(r, i)
		c := &r.candidates[i]
		t.held = max(t.held, c.Cached)
		live := r.sessions.Live(i)
		if i == home {
			live -= own
		}
		c.Live = float32(live)
		if stored {
			s.tiers.offer(r, i)
		}
	}
	some, open := r.gate.allowed(r.candidates)
	req := policy.Request{
		Tokens: t.input, Exact: true, Turn: r.turn, Seed: mix(s.cfg.Seed ^ mix(uint64(t.id))), Stored: stored,
		Chunk: s.cfg.Service.ChunkedPrefill, Answer: r.answer,
	}
	if s.cfg.Share == ShareGossip && !s.ablated.replica {
		req.Routers = s.cfg.Routers
	}
	choice := r.choose(t, s.time.now, req, some)
	fetched := fetches(r.pick, req, some, choice.Index)
	if open != nil {
		choice.Index = int(open[choice.Index])
	}
	r.turn++
	t.worker = int32(choice.Index)
	c := &r.candidates[choice.Index]
	t.uncached, t.fetched = t.input-max(c.Cached+fetched, c.Predicted), fetched
}

// expectOf notes that t's worker will have its prompt.
func (s *run) expectOf(r *replica, t *task) {
	pages := int32(t.input / s.page)
	if r.trees == nil {
		r.view.predict(t.worker, t.path, pages, 1)
		return
	}
	tree := r.trees[t.worker]
	tree.insert(t.path, pages)
	if over := tree.pages - int32(s.cfg.TreeTokens/s.page); over > 0 {
		tree.evict(over)
	}
}

// candidate is worker i as replica r sees it.
func (s *run) candidate(r *replica, i int) policy.Candidate {
	l, o := &r.loads[i], &r.overlaps[i]
	c := policy.Candidate{
		ID: mix(uint64(i) + 1), Cached: int(o.any) * s.page, Host: int(o.any-o.held) * s.page, Predicted: int(o.soon) * s.page,
		Rate: l.speed.Rate(), Pool: int64(s.cfg.CacheTokens), Used: l.used(), Tree: r.view.tokens[i],
		MaxRunning: int64(s.cfg.Service.MaxRunning),
		Age:        (s.time.now - l.heard.at).seconds(),
		InFlight:   l.requests(), Waiting: l.requests() - l.decoding(),
	}
	if s.ablated.rate {
		c.Rate = 0
	}
	c.Pending = int64(l.backlog.Tokens(s.time.now.seconds(), c.Rate)/float64(s.page)) * int64(s.page)
	switch {
	case s.ablated.load:
		c.Pending, c.InFlight, c.Waiting, c.Used = l.heard.waiting, l.heard.requests, l.heard.requests-l.heard.begun, l.heard.used
	case s.ablated.progress:
		if s.ablated.rate {
			c.Rate = 0
		}
		c.Pending = int64(l.pending)
	}
	// A worker's report of a request may precede another replica's message.
	c.Waiting = max(c.Waiting, 0)
	if s.ablated.predictions {
		c.Predicted = c.Cached
	}
	return c
}
