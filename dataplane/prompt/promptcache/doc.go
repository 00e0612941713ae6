// Package promptcache remembers the token ids of rendered chats. A text that begins like an earlier
// one costs a comparison of bytes where they are equal, and is tokenized and hashed only behind
// them.
//
// A text is cut into pieces where its ids do not depend on what came before, at ends of messages. A
// piece holds its bytes, their ids and the hashes of the blocks that end in it, and names the piece
// before it: prompts that begin alike share their first pieces, and a turn of a conversation adds
// those of its new part. The end of a text behind its last cut is never remembered.
//
// A piece is used only for bytes that are equal to its own, behind a piece that was found the same
// way. The hash that finds it is seeded and only says where to look. The cache can change the time
// that a request takes, never the ids read from it.
//
// # Concurrency
//
// A [Cache] may be used from any number of goroutines; it starts none. A [Cursor] belongs to one at
// a time. Pieces are reused in place, under the lock of their shard, which readers share for the
// time of one comparison and copy (0.2 µs). Locks are never nested.
//
// # Ownership
//
// Everything is copied, on the way in and on the way out. The hashes belong to the index that made
// them: a Cache lives as long as its index and no longer.
package promptcache
