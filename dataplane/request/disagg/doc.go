// Package disagg knows what SGLang's prefill and decode servers say to a router, and does no I/O: the rooms in which the two
// meet, the fields and headers that carry them, errors inside an answer of status 200, and the parts of an answer that only
// the prefill server has.
//
// One request goes to both servers at once, with the address of the prefill server's bootstrap and a room. The decode
// server finds the prefill server there, and gets from it the KV cache of the prompt, its first token and how much of the
// prompt was cached; its answer is the client's. What it does not get is the prompt's log probabilities: Merger puts those of
// the prefill server's answer into the decode server's, on its way and without building a document.
//
// # Concurrency
//
// Rooms is safe for any number of goroutines. A Merger belongs to one at a time.
//
// # Ownership
//
// A Merger keeps what it was given of the prefill server's answer until its next Reset; nothing else here keeps its
// arguments.
package disagg
