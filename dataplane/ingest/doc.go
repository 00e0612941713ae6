// Package ingest turns the KV events of the workers into what the index says
// that each of them holds.
//
// A Stream follows one DP rank: it subscribes, replays what the rank published
// before, checks every sequence number, replays gaps, and starts from nothing
// when the rank restarts or when a gap cannot be filled. A replay begins with the
// message that was applied last: a process that has another one there is not
// the one that is known, whatever its numbers. Forgetting costs a
// few cache hits; believing in blocks that are gone costs wrong decisions until
// someone notices. So on doubt it forgets. A rank whose numbers mean nothing is
// asked for 64 replays at once and for 4 a second, and followed without its
// history meanwhile.
//
// What all ranks hold can be saved in a snapshot and restored by the next
// process, each rank with the position in its stream that it belongs to. A
// restored rank routes at once and asks for what comes after its position; it
// starts from nothing where the rank does not have the last message before it.
//
// What is not proved is not credited. While messages are missing, while a check
// is not answered and behind a lost connection the rank is Unproven, and
// worker.Rank.Doubt keeps the index, or all that is known, out of the choice. A
// replay that brings the message applied last proves the process; without a lost
// connection so does the next number.
//
// # Concurrency
//
// Each Stream has one goroutine that reads the subscription's socket, decodes
// and applies what comes, and one more while a replay is under way. Reading never
// waits for a replay: live messages that must come behind it are kept, 16 MiB at
// most, and a rank whose replay does not answer within 2 s is followed without
// its history. Both goroutines handle one message at a time under Stream.turn,
// which guards the sequence state and all writes to the index for the rank's
// holders; a snapshot holds it while it copies what the rank holds.
// Manager.mu guards the set of streams and is not held while a stream stops. The
// order is Stream.turn, Manager.mu, Stream.mu. Readers use View, an immutable
// table behind one atomic load.
//
// # Ownership
//
// A message is the stream's until the callback that it was given to returns.
// Nothing of it is kept: the index copies what it needs.
package ingest
