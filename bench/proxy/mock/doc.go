// Package mock is SGLang workers that cost next to nothing: what routers are measured in front of.
//
//	file       job
//	mock.go    Workers: ports, the loop, what they have seen
//	conn.go    one connection: HTTP/1.1 in
//	ask.go     what a body asks for, found without building a document
//	answer.go  answers in JSON, streams in events
//	info.go    what routers ask a worker before they use it
//	cache.go   a prefix cache of pages, least recently used leaf first out
//	events.go  its changes as KV events over ZMQ
//	fault.go   workers that fail when they are told to
//
// They compute nothing. An answer has as many tokens as max_tokens says, each the text "word"; a stream has one event for each. But
// what they say of their cache is true: cached_tokens is what the cache held of the prompt, and the KV events are all changes of it,
// published before the answer begins. bench/sim is the imitation of SGLang for tests; it costs fifty times as much.
//
// Ids of a text are not a tokenizer's: four bytes are a token. /v1/tokenize, if it is offered, answers with the same ids.
//
// # Concurrency
//
// One goroutine, that of [Workers.Run], does everything except ZMQ. [Workers.Stats] may be called from any goroutine.
//
// # Errors
//
// [ErrConfig] is a configuration that cannot be.
package mock
