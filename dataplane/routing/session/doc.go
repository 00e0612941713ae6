// Package session knows the sessions of agents and users: the rank with their KV pages, the
// tokens there that no other session shares, and how likely each comes back after so long a
// pause. The sum over a rank's sessions is its live tokens: a rank with more of them than its
// pool holds will lose pages that are needed again, and is no place for one more.
//
// A [Table] is told of each request: [Table.Sent] when a rank is chosen, [Table.Ended] when its
// answer has ended or failed. Before a choice, [Table.Live] returns the live tokens of a rank,
// and [Table.Home] the rank with this session's pages and its part of them; the difference is
// policy.Candidate.Live. A session's key is any number other than 0 that stays the same for all
// of its turns. Its low 15 bits are the session's place, and few sessions may share one: keys of
// turns.ID have a place each.
//
// # The model
//
// A session's tokens count at the rank of its latest turn. Those that it left elsewhere are
// evicted sooner or later without loss. An idle session counts with its chance of
// coming back, given the pause so far. The chance is learnt by survival analysis (Kaplan and
// Meier's estimate over logarithmic bins of pauses), apart for sessions of 1, 2 to 3, 4 to 7
// turns and so on, so that one-shot prompts and long agent loops do not mix. Each request looks
// at the pauses of some other sessions too, else those that never come back would never count.
//
// Nothing here has a unit of its own: seconds and tokens may be scaled at will.
//
// # Concurrency
//
// All methods are safe for concurrent use. Sent, Ended and Home hold one lock for less than a
// microsecond; Live takes none.
//
// # Ownership
//
// Times are seconds on any clock that the caller keeps to. Ranks are numbers of the
// caller, without large gaps; [Table.Clear] one before another rank has its number.
//
// # Errors
//
// None. A new session takes the place of another one with the same low bits.
package session
