// Package ingest keeps the index equal to the workers' prefix caches by their KV events, and
// decides when it is saved.
//
// A Stream subscribes to one DP rank. Its follower replays the events that the rank published
// before, checks every sequence number, replays gaps, and starts over when the rank restarts or
// a gap cannot be filled. A replay begins with the message that was applied last: a process
// with another message there is not the known one, even with fitting numbers. In doubt the
// follower drops the rank's blocks. That costs a few cache hits; blocks that are gone would
// cost wrong choices until something reveals them. A rank with meaningless numbers is asked for
// 64 replays at once and 4 a second, and followed without its history meanwhile.
//
// Snapshots save the blocks of all ranks, each with its position in the rank's stream. A
// restored rank routes at once and is replayed from its position; it starts over where the rank
// does not have the last message before it.
//
// Unproved content is not credited. While messages are missing, while a check has no answer and
// after a lost connection the rank is Unverified, and worker.Rank.Doubt keeps the index, or all
// knowledge of the rank, out of the choice. A replay with the message that was applied last
// proves the process; without a lost connection so does the next number.
//
//	file                        content
//	stream.go                   Stream: the subscription of a rank
//	follower.go                 follower: order, gaps, restarts, resyncs of a rank
//	sequence.go, schedule.go    its parts: sequence numbers; times of checks, limits of replays
//	replay.go, replay_result.go recovery: a replay, and its effect
//	silence.go                  ranks that compute prompts and publish no events
//	content.go, extra_key.go    content: events to blocks of the index
//	manager.go, view.go         Manager: the streams of all workers, and the table for readers
//	snapshot.go, save.go        Snapshots: when the file is written; its ranks
//
// # Concurrency
//
// Each Stream has one goroutine that reads the subscription's socket, decodes messages and
// applies them, and one more while a replay is under way. Reading never waits for a replay:
// live messages that must follow it are kept, at most 16 MiB, and a rank whose replay does not
// answer within 2 s is followed without its history. Both goroutines handle one message at a
// time under Stream.turn, which guards the follower and all writes to the index for the rank; a
// snapshot holds it while it copies the rank's blocks. Manager.mu guards the set of streams and
// is not held while a stream stops. The order is Stream.turn, Manager.mu, content.mu, then the
// locks of the index or those of the rank (package worker). Manager.Down ends a worker's streams
// and waits for their goroutines. Readers use View, an immutable table behind one atomic load.
//
// Snapshots.Run writes on its caller's goroutine. Snapshots.writing lets one write run at a time
// and is held across it; no stream takes it. Snapshots.mu guards the status.
//
// # Ownership
//
// A message belongs to the stream until its callback returns. The index copies the parts it
// needs.
package ingest
