// Package disagg has the parts of SGLang's protocol between a router and its prefill and decode
// servers, without I/O: bootstrap rooms, the fields and headers that carry them, errors inside an
// answer of status 200, and the merge of the two servers' log probabilities.
//
// One request goes to both servers at once, with the prefill server's bootstrap address and a room.
// The decode server finds the prefill server there, and receives the KV cache of the prompt, its
// first token and its number of cached tokens; its answer is the client's. It does not receive the
// prompt's log probabilities: Merger puts those of the prefill server's answer into the decode
// server's, as it passes and without building a document.
//
// # Concurrency
//
// Rooms is safe for any number of goroutines. A Merger belongs to one at a time.
//
// # Ownership
//
// A Merger keeps parts of the prefill server's answer until its next Reset; nothing else here keeps
// its arguments.
package disagg
