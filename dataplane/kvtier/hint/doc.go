// Package hint encodes pull hints: messages by which a router tells the sidecar of the chosen node
// which KV pages to pull from another node's tier before the engine asks for them.
//
// A hint is sent once over the cluster's messages, to a subject of the node's own ([Subject]),
// and is not answered. A lost, late or wrong hint costs at most the time that the engine's own
// question to its tier would have saved.
//
// # Format
//
// Numbers are little-endian:
//
//	version u8 = 1
//	page    u32   tokens of a page; 0: any size
//	have    u32   leading tokens in the engine's prefix cache, whose pages are not needed
//	model   u16 and as many bytes, as the engine names it
//	salt    u16 and as many bytes; none: no cache salt
//	tokens  u32 and as many ids of 4 bytes: the prompt from its first token on
//	from    the rest, at most 255 bytes: the node whose tier is expected to have the pages; none: any
//
// NATS takes messages of 1 MiB, so a hint has at most [MaxBytes], and longer prompts are cut to
// whole pages.
//
// # Concurrency
//
// There is no state.
//
// # Ownership
//
// The result of [Parse] aliases the message.
//
// # Errors
//
// [ErrMalformed] is a message that is no hint of this version.
package hint
