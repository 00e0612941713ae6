package ingest

import "time"

// mute notices a rank that works and tells nothing of it: its publisher has
// died, or something on the way swallows what it sends. A quiet stream looks
// the same, and its replay endpoint may answer with what it told before; only
// the answers of its requests show that its cache must have changed since.
type mute struct {
	on      bool      // found so; the rank's index is empty until it is heard again
	asked   bool      // suspected so, and a replay is to show whether events are on their way
	batches uint64    // Stats.Batches at the last check
	stored  uint64    // Count.Stored when the first whole check without a batch ended
	denied  int       // replays since the last batch that had nothing to tell of what was stored
	quiet   int       // whole checks in a row without a batch
	looked  time.Time // when batches was last compared
}

const (
	// muteChecks without a batch, and new prompts were answered after the first of
	// them: the batch that tells of a prompt comes before its answer's first byte,
	// and an answer that ends a whole check later has pages of its own to tell of.
	muteChecks = 2
	// muteTokens is what a rank may store without anything to tell: what its cache has no room for, or
	// holds already because of a request that another router sent.
	muteTokens = 1024
	// muteDenials is how many replays in a row must have nothing to tell, each after another muteTokens.
	muteDenials = 2
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
	batches, stored := s.Stats.Batches.Load(), s.rank.Count.Stored.Load()
	if batches == m.batches {
		m.quiet++
	} else {
		m.quiet, m.denied = 0, 0
	}
	m.batches = batches
	if m.quiet < muteChecks {
		m.stored = max(stored, m.stored)
	}
	if m.on || m.quiet < muteChecks || stored < m.stored+muteTokens {
		return m.on
	}
	if st := s.Stats.State(); s.replayAt != "" && (st == Live || st == Unproven) {
		if s.asking == nil {
			s.ask(askProof)
		}
		m.asked = s.asking.kind == askProof // and its end decides
		return false
	}
	s.goMute()
	return true
}

// deny is for a replay that answers and has nothing to tell of prompts that must
// have been stored. Once may be the fault of what is known of the prompts.
func (s *Stream) deny() {
	if s.mute.denied++; s.mute.denied < muteDenials {
		s.mute.stored = s.rank.Count.Stored.Load()
		return
	}
	s.goMute()
}

// goMute drops what a rank held that goes on storing prompts and tells nothing.
func (s *Stream) goMute() {
	s.log.Warn("worker computes prompts and publishes no KV events of them; routing by what is sent to it until events come",
		"endpoint", s.endpoint)
	s.mute.on = true
	s.Stats.Mutes.Add(1)
	s.degrade()
}

// unmute is for a message of the subscription: the rank is heard again, and the
// next check learns anew what it holds.
func (s *Stream) unmute() {
	if s.mute.on || s.mute.asked {
		s.mute = mute{batches: s.Stats.Batches.Load(), stored: s.rank.Count.Stored.Load()}
	}
}
