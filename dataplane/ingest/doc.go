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
// # Concurrency
//
// Each Stream has one goroutine: it reads the subscription's socket, decodes and
// applies what comes, replays, checks, and alone touches the sequence state and
// writes to the index for its holders. While it replays it reads nothing: the
// kernel and the rank's publisher queue, and what the publisher then drops is a
// gap, found at the next message and replayed. Manager.mu guards the set of
// streams and is not held while a stream stops; a Stream's mu may be taken under
// it. A Stream's applying is held while a message goes into the index, and by a
// snapshot while it copies what the rank holds; both others may be taken under
// it. Readers use View, an immutable table behind one atomic load.
//
// # Ownership
//
// A message is the stream's until the callback that it was given to returns.
// Nothing of it is kept: the index copies what it needs.
package ingest
