// Package replay sends the requests of a trace to an OpenAI or SGLang URL, at the trace's own
// times, and measures as a client: the time to the first token, the time to the last, and the
// part of each prompt that was found in a cache.
//
// [Run] replays a trace of package trace once, and [Table] sets results side by side.
//
// [RunUsers] is a closed loop: each of its users plays sessions one after the other, and a turn
// is sent its pause after the answer that it follows.
//
// # Concurrency
//
// Arrivals of Run are open loop: a request is sent at its time, whether or not those before it are
// answered, so that a slow router's queue grows as in production. Each request in flight has
// one goroutine and one connection of its own. All of them have ended when Run returns. A user of
// RunUsers has one more, and one for each turn that waits for its time.
//
// # Ownership
//
// The client shares its cores with the measured cluster, so it does as little as it can: a
// prompt is encoded into a pooled buffer, events are counted and not parsed, and only the last
// event of an answer is kept.
//
// # Errors
//
// [ErrConfig] is an impossible configuration, [ErrURL] an unusable address. A failed request is
// counted in the [Result] and ends no replay.
package replay
