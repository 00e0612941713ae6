// Package turns finds the session of which a prompt is the next turn, by the name that the client
// gives it or, where it gives none, by the beginning of the prompt.
//
// A turn of a session begins with the prompt of the turn before, so the hash of a whole prompt is a
// prefix hash of the next one. The table has a mark for the end of each prompt: prefix hash to
// branch. The deepest mark of a new prompt tells the branch that it continues. A branch is a
// sequence of prompts of which each extends the one before; a session has several where sub-agents
// begin with a part of its prompt, or where its client goes back.
//
//	the prompt                                                it is
//	contains the branch's last prompt                         its next turn (Next)
//	equals it, and that is answered                           sent again (Again)
//	leaves it behind the end of the prompt before             its last turn, rewritten (Rewritten)
//	leaves it earlier, or while that runs                     a branch of the session (Branch)
//	has no mark, or only those that several sessions share    a session (First)
//
// A prompt that leaves the first prompt of a session may be a sub-agent's, a compaction, or another
// user's with the same system prompt. It counts as a branch until both go on in turns: a session
// waits for its sub-agents, and another user does not. Then it is a session, and what both begin
// with is marked as shared. Where clients name their sessions, such a prompt without the name is
// none of theirs.
//
// The prefix outranks the name where both say something: pages are shared by prefixes, and some
// clients send a new name with each request, others one name for all. The name tells the session of
// a prompt without a mark.
//
// # Memory
//
// A table is two arrays: 4 MiB of marks in sets of four, and 3 MiB of branches. A new mark replaces
// one of a branch that has ended, then one of a session of one turn, then any of its set; in a full
// table a new branch replaces the one of four that is used least, those of one turn first. So
// prompts that never come again, and clients with a million names, displace each other and no
// agent.
//
// A quarter of a MiB of tags and half a MiB of counters keep look-ups short. A prompt whose first
// unit no branch begins with is not looked up at all. Any other costs a probe for each unit behind
// its deepest mark, which nearly always ends at a tag. Prefixes that only ended branches shared are
// not found.
//
// # Concurrency
//
// All methods may be called from any goroutine. Marks are read and written without locks: a lost
// one is a turn that begins a new session. A branch is guarded by one of 64 mutexes, held for some
// ten loads and stores, one at a time.
//
// # Ownership
//
// The table keeps no slice of a caller.
package turns
