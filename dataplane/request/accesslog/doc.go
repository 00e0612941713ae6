// Package accesslog writes a line of JSON for each request that a worker answered or that was
// refused, without its text. The file is a trace: `warmpath bench policies`, `warmpath bench
// replay` and readers of Mooncake's format take it unchanged.
//
// A line has Mooncake's fields: "timestamp" (unix milliseconds of the arrival), "input_length",
// "output_length" and "hash_ids" (one for each "block_size" tokens of the prompt). It adds
// "request_id" (the answer's X-Request-ID), "status", "ttft_ms", "duration_ms", "model", "key" (its
// name), "worker", "rank", "expected_tokens" and "cached_tokens" (prompt tokens in the worker's
// cache: expected by the router, and reported by the worker), and "session", "branch" and "turn"
// (see package turns).
// Unknown values are left out. A request that the router refused, one to the operator API
// too, has "refused" (the reason of warmpath_errors_total), "client" (its address) and "path".
// A prompt of unknown tokens has no hash_ids, and readers of traces skip it.
//
// The ids are hashes of tokens and of sessions' names with a seed of the process, so that no prompt
// and no name can be guessed from them. Equal blocks have equal ids within the life of one process,
// and beyond it where a snapshot keeps the seed.
//
// # Concurrency
//
// [Log.Begin], [Log.Commit], [Log.Reopen] and [Log.Dropped] may be called from any goroutine and
// never wait. [Log.Run] writes, in one goroutine.
//
// # Ownership
//
// An [Entry] belongs to the caller of Begin until Commit; strings in it must not change afterwards.
package accesslog
