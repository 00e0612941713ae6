// Package mock provides SGLang workers that cost next to nothing, to measure routers in front of
// them.
//
//	file       job
//	mock.go    Workers: ports, the loop, counts
//	conn.go    one connection: HTTP/1.1 in
//	ask.go     fields of a request, found without building a document
//	answer.go  answers in JSON, streams in events
//	info.go    answers to a router's questions before the first request
//	cache.go   a prefix cache of pages, least recently used leaf first out
//	events.go  its changes as KV events over ZMQ
//
// They compute nothing. An answer has as many tokens as max_tokens says, each the text "word"; a
// stream has one event for each. But their reports are true: cached_tokens is the cached part of
// the prompt, the KV events are all changes, published before the answer begins. bench/sim is the
// imitation of SGLang for tests; it costs fifty times as much.
//
// Ids of a text are not a tokenizer's: four bytes are a token. /v1/tokenize, if it is offered,
// answers with the same ids.
//
// # Concurrency
//
// One goroutine, that of [Workers.Run], does everything except ZMQ. [Workers.Stats] may be called
// from any goroutine.
//
// # Errors
//
// [ErrConfig] is a configuration that cannot be.
package mock
