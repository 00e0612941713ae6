package policies

// arbiter is the first replica where it chooses for all, with the messages on their way.
// Messages take one hop each, so both lists are in order of time.
type arbiter struct {
	*run
	asked  []*task // to the arbiter
	chosen []*task // back to the asking replica
}

// ask sends the arbiter t with the caches as r knows them.
func (s *arbiter) ask(r *replica, t *task) {
	if r.trees == nil {
		r.view.catchUp(s.time.now)
	}
	t.overlaps = make([]overlap, len(r.overlaps))
	r.view.match(t.overlaps, t.path, int32((t.input-1)/s.page))
	s.asked = append(s.asked, t)
}

// next is when the next message between asker and arbiter arrives.
func (s *arbiter) next() clock {
	at := never
	if len(s.asked) > 0 {
		at = s.asked[0].arrived + ticks(s.cfg.Hop)
	}
	if len(s.chosen) > 0 {
		at = min(at, s.chosen[0].arrived+2*ticks(s.cfg.Hop))
	}
	return at
}

// carry delivers the message that arrives now.
func (s *arbiter) carry(now clock) {
	s.upkeep(now)
	s.time.now = now
	if len(s.chosen) > 0 && s.chosen[0].arrived+2*ticks(s.cfg.Hop) == now {
		t := s.chosen[0]
		s.chosen = s.chosen[1:]
		s.spread(t, noteSent)
		s.expectOf(s.replicas[t.replica], t)
		t.sent = now
		s.workers[t.worker].submit(t, now)
		return
	}
	t := s.asked[0]
	s.asked = s.asked[1:]
	s.choose(t)
	s.chosen = append(s.chosen, t)
}

// choose chooses for t by the caches as the asking replica knows them, the load as the arbiter
// knows it, and the requests in flight of both.
func (s *arbiter) choose(t *task) {
	r := s.replicas[0]
	r.take(s.time.now)
	if r.trees == nil {
		r.view.catchUp(s.time.now)
	}
	r.view.match(r.overlaps, t.path, int32((t.input-1)/s.page))
	for i := range r.overlaps {
		own := r.overlaps[i].soon
		r.overlaps[i] = t.overlaps[i]
		r.overlaps[i].soon = max(r.overlaps[i].soon, own)
	}
	t.overlaps = nil
	s.pickFor(r, t)
	t.promised = true
	r.loads[t.worker].note(t, noteSent, s.time.now)
	r.follow(t, noteSent, s.time.now)
	r.foresee(&note{t: t, kind: noteSent})
}
