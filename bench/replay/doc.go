// Package replay sends the requests of a trace to an OpenAI or SGLang URL, at the trace's own times, and measures what a
// client sees: the time to the first token, the time to the last, and how much of each prompt was found in a cache.
//
// A trace is a [Source]: a recorded one ([NewRecorded] of package trace's requests) or a made one ([NewSynthetic]). [Run] replays it once;
// [Compare] replays it once for each policy of a cluster that the caller starts, and [Table] sets the results side by side.
//
// # Concurrency
//
// Arrivals are open loop: a request is sent when its time has come, whether or not those before it were answered, because
// that is what makes a slow router's queue grow as it would in production. Each request in flight has one goroutine and
// one connection of its own. All of them have ended when Run returns.
//
// # Ownership
//
// The client shares its cores with the cluster that it measures, so it does as little as it can: a prompt is encoded
// into a pooled buffer, events are counted and not parsed, and of an answer only the last event is kept.
//
// # Errors
//
// [ErrConfig] is what cannot be replayed, [ErrURL] an address that cannot be used. A request that fails is counted in the
// [Result] and ends nothing.
package replay
