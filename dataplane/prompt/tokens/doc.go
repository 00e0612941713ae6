// Package tokens gets the token ids of a prompt from the worker that would tokenize it anyway, and
// remembers them.
//
// A worker's POST /v1/tokenize applies the model's own chat template and tokenizer, so its ids are
// those that the engine caches under, whatever the model; a tokenizer of our own would have to be
// right for each of them. The price is a round trip on a miss, which is why a miss is bounded by a
// deadline, shared by equal prompts, and never stands in the way of routing: without ids the request
// is routed by what else is known.
//
// One model name is taken to mean one tokenizer and one template on all workers that serve it.
//
// # Concurrency
//
// A Source may be used from any number of goroutines; it starts none. The cache has shards, each
// with one mutex that is never held during a fetch. Callers that ask for the same prompt while it is
// fetched wait for the first of them; the fetch runs on that caller's goroutine.
// Locks are never nested.
//
// # Ownership
//
// Returned ids and hashes are shared by all callers and by the cache: never write to them, never append to
// them in place. They stay valid after they leave the cache. The request is read during the call
// only.
//
// # Errors
//
// [ErrUnavailable] is the one to test for; [ErrNotText], [ErrUnsupported] and [ErrPaused] say why and
// wrap it. Each means: route without tokens.
package tokens
