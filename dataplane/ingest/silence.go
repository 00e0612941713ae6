package ingest

import "time"

// silence detects a rank that computes prompts and publishes no events: its publisher has died, or
// the network drops its messages. An idle rank looks the same, and its replay endpoint may answer
// with old events; only the answers to its requests show that its cache must have changed.
type silence struct {
	found   bool      // the rank's index stays empty until a message comes
	asked   bool      // suspected; a replay shows whether events are on their way
	batches uint64    // Stats.Batches at the last check
	stored  uint64    // Count.Stored when the first whole check without a batch ended
	denied  int       // replays since the last batch that had no event for the stored prompts
	quiet   int       // whole checks in a row without a batch
	looked  time.Time // of the last comparison of batches
}

const (
	// silentChecks without a batch make a rank suspect if new prompts were answered after the first
	// one: the batch with a prompt's blocks precedes the first byte of its answer, and an answer
	// that ends a whole check later has stored blocks of its own.
	silentChecks = 2
	// silentTokens is the number of tokens that a rank may store without an event: prompts that its
	// cache has no room for, or that it holds because of another router's request.
	silentTokens = 1024
	// silentReplays in a row must have no new event, each after another silentTokens.
	silentReplays = 2
)

// observe compares the rank's batches with its answers, once in each interval, and reports whether
// it has just become suspect.
func (s *silence) observe(now time.Time, interval time.Duration, batches, stored uint64) (suspect bool) {
	// Checks may come faster than the interval, and an overloaded rank may be late by less than it.
	if now.Sub(s.looked) < interval*9/10 {
		return false
	}
	s.looked = now
	if batches == s.batches {
		s.quiet++
	} else {
		s.quiet, s.denied = 0, 0
	}
	s.batches = batches
	if s.quiet < silentChecks {
		s.stored = max(stored, s.stored)
	}
	return !s.found && s.quiet >= silentChecks && stored >= s.stored+silentTokens
}

// deny takes a replay that answered without events for prompts that must have been stored, and
// reports whether it was enough: one may be due to a wrong count of stored tokens.
func (s *silence) deny(stored uint64) (confirmed bool) {
	if s.denied++; s.denied < silentReplays {
		s.stored = stored
		return false
	}
	return true
}

// end takes a message of the subscription: the next check learns the rank again.
func (s *silence) end(batches, stored uint64) {
	if s.found || s.asked {
		*s = silence{batches: batches, stored: stored}
	}
}
