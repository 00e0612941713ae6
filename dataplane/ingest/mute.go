package ingest

import "time"

// mute notices a rank that works and tells nothing of it: its publisher has
// died, or something on the way swallows what it sends. A quiet stream looks
// the same, and its replay endpoint may answer with what it told before; only
// the answers of its requests show that its cache must have changed since.
type mute struct {
	on       bool      // found so; the rank's index is empty until it is heard again
	batches  uint64    // Stats.Batches at the last check
	computed uint64    // prompt tokens that the rank had computed when the first whole check without a batch ended
	quiet    int       // whole checks in a row without a batch
	looked   time.Time // when batches was last compared
}

const (
	// muteChecks without a batch, and new prompts were answered after the first of
	// them: the batch that tells of a prompt comes before its answer's first byte,
	// and an answer that ends a whole check later has pages of its own to tell of.
	muteChecks = 2
	// muteTokens is what a rank may compute without anything to tell: what its
	// cache has no room for, or holds already because of another request.
	muteTokens = 1024
)

// isMute is part of each check, and forgets what can no longer be known.
func (s *Stream) isMute() bool {
	m := &s.mute
	// Checks may come faster than TailCheck, and a rank that is busy or starved may be late by less than that.
	now := time.Now()
	if now.Sub(m.looked) < s.m.cfg.TailCheck*9/10 {
		return m.on
	}
	m.looked = now
	batches, computed := s.Stats.Batches.Load(), s.computed()
	if batches == m.batches {
		m.quiet++
	} else {
		m.quiet = 0
	}
	m.batches = batches
	if m.quiet < muteChecks {
		m.computed = max(computed, m.computed)
	}
	if m.on || m.quiet < muteChecks || computed < m.computed+muteTokens {
		return m.on
	}
	s.log.Warn("worker computes prompts and publishes no KV events of them; routing by what is sent to it until events come",
		"endpoint", s.endpoint)
	m.on = true
	s.Stats.Mutes.Add(1)
	s.degrade()
	return true
}

// unmute is for a message of the subscription: the rank is heard again, and the
// next check learns anew what it holds.
func (s *Stream) unmute() {
	if s.mute.on {
		s.mute = mute{batches: s.Stats.Batches.Load(), computed: s.computed()}
	}
}

// computed returns how many prompt tokens the rank has computed that its cache
// must have taken in. The last page of a prompt is computed each time, whatever
// is cached.
func (s *Stream) computed() uint64 {
	c := &s.rank.Count
	tokens, cached, answers := c.PromptTokens.Load(), c.CachedTokens.Load(), c.Requests.Load()
	page := uint64(1)
	if _, shapes := s.facts(); len(shapes) > 0 {
		page = uint64(shapes[0].BlockSize)
	}
	if known := cached + answers*page; known < tokens {
		return tokens - known
	}
	return 0
}

// setState publishes how well the rank is known.
func (s *Stream) setState(st State) {
	s.Stats.setState(st)
	s.rank.SetExact(st == Live || st == Restored)
}
