// Package promptcache remembers the token ids of prompts that came as JSON. A prompt that begins
// like an earlier one costs a comparison of bytes where they are equal, and is parsed and hashed
// only behind them.
//
// A list of ids is cut into pieces of at most 4 KiB, each behind its last comma, so that no number
// is ever cut and the parser continues with the next element. A piece holds its bytes, their ids
// and the hashes of the blocks that end in it, and names the piece before it: prompts that begin
// alike share their first pieces, and a turn of a conversation adds those of its new part. The end
// of a list behind its last whole piece is never remembered.
//
// A list is remembered the second time it comes. The first time, the cache notes a fingerprint of
// its first unknown piece, in four bytes. So prompts that never come again displace nothing and
// cost one hash of 4 KiB (0.4 µs), and a conversation is parsed once more than it would have to be.
//
// A piece is used only for bytes that are equal to its own, behind a piece that was found the same
// way. The hash that finds it is seeded and only says where to look. The cache can change the time
// that a request takes, never the ids read from it.
//
// # Concurrency
//
// A [Cache] may be used from any number of goroutines; it starts none. A [Cursor] belongs to one at
// a time. Pieces are reused in place, so a reader pins its piece with an atomic counter, for the
// time of one comparison and copy (0.2 µs); a writer takes another piece meanwhile. Fingerprints
// are a table of atomics. Each shard has one mutex, which guards its map and its ring, not the
// bytes of its pieces; it is not taken at all where a prompt continues as the last one did. Locks
// are never nested.
//
// # Ownership
//
// Everything is copied, on the way in and on the way out. The hashes belong to the index that made
// them: a Cache lives as long as its index and no longer.
package promptcache
