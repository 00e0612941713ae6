// Package accesslog writes a line of JSON for each request that was answered, without its text. The file is a trace: `warmpath bench
// policies` and `warmpath bench replay` read it as it is, and so does whatever reads Mooncake's format.
//
// A line has Mooncake's fields, "timestamp" (unix milliseconds of the arrival), "input_length", "output_length" and "hash_ids"
// (one for each "block_size" tokens of the prompt), and ours: "status", "ttft_ms", "duration_ms", "model", "worker", "rank",
// "expected_tokens" and "cached_tokens" (of the prompt, in the worker's cache: what the router expected, and what the worker
// reported), "session". What is unknown is left out; a prompt whose tokens the router did not learn has no hash_ids, and a
// reader of traces leaves it out.
//
// Ids are hashes of tokens with a seed of the process, so that a prompt cannot be guessed from them: equal blocks have equal ids
// within the life of one process, and beyond it where a snapshot keeps the seed.
//
// # Concurrency
//
// [Log.Begin], [Log.Commit], [Log.Reopen] and [Log.Dropped] may be called from any goroutine and never wait. [Log.Run] writes, in one.
//
// # Ownership
//
// An [Entry] is its taker's from Begin to Commit; strings in it must not change afterwards.
package accesslog
