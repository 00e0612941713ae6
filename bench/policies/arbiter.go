package policies

// asking is what is on the way between replicas of which the first chooses for all. Messages take one hop each, so both lists are in
// order of time.
type asking struct {
	asked  []*task // to the arbiter
	chosen []*task // back to who asked
}

// ask sends the arbiter what r's own view of the caches says of t.
func (s *run) ask(r *replica, t *task) {
	if r.trees == nil {
		r.view.catchUp(s.notes.now)
	}
	t.laps = make([]overlap, len(r.laps))
	r.view.match(t.laps, t.path, int32((t.input-1)/s.page))
	s.way.asked = append(s.way.asked, t)
}

// nextAsked is when the next message between asker and arbiter arrives.
func (s *run) nextAsked() clock {
	at := never
	if len(s.way.asked) > 0 {
		at = s.way.asked[0].arrived + ticks(s.cfg.Hop)
	}
	if len(s.way.chosen) > 0 {
		at = min(at, s.way.chosen[0].arrived+2*ticks(s.cfg.Hop))
	}
	return at
}

// carry delivers the message that arrives now.
func (s *run) carry(now clock) {
	s.upkeep(now)
	s.notes.now = now
	if len(s.way.chosen) > 0 && s.way.chosen[0].arrived+2*ticks(s.cfg.Hop) == now {
		t := s.way.chosen[0]
		s.way.chosen = s.way.chosen[1:]
		s.spread(t, noteSent)
		s.expectOf(s.replicas[t.replica], t)
		t.sent = now
		s.workers[t.worker].submit(t, now)
		return
	}
	t := s.way.asked[0]
	s.way.asked = s.way.asked[1:]
	s.arbitrate(t)
	s.way.chosen = append(s.way.chosen, t)
}

// arbitrate chooses for t by what who asked knows of the caches, what the arbiter knows of load, and what either has sent and not
// heard of.
func (s *run) arbitrate(t *task) {
	r := s.replicas[0]
	r.take(s.notes.now)
	if r.trees == nil {
		r.view.catchUp(s.notes.now)
	}
	r.view.match(r.laps, t.path, int32((t.input-1)/s.page))
	for i := range r.laps {
		own := r.laps[i].soon
		r.laps[i] = t.laps[i]
		r.laps[i].soon = max(r.laps[i].soon, own)
	}
	t.laps = nil
	s.pickFor(r, t)
	t.promised = true
	r.loads[t.worker].note(t, noteSent, s.notes.now)
	r.foresee(&note{t: t, kind: noteSent})
}
