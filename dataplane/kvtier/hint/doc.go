// Package hint is the message by which a router tells the sidecar of the node that it has chosen which KV pages to pull from another
// node's tier: they are then on their way before the engine asks for them.
//
// A hint is sent once, over the cluster's bus, to a subject of the node's own ([Subject]). Nobody answers: one that is lost, late or wrong costs
// at most the time that the engine's own question to its tier would have saved.
//
// # The message
//
// Numbers are little-endian:
//
//	version u8 = 1
//	page    u32   tokens of a page; 0: of any size
//	have    u32   leading tokens that the engine has itself, whose pages nobody will ask for
//	model   u16 and as many bytes, as the engine names it
//	salt    u16 and as many bytes; none: pages without a salt
//	tokens  u32 and as many ids of 4 bytes: the beginning of the prompt, from its first token on
//	from    the rest, at most 255 bytes: the node whose tier is expected to have the pages; none: any
//
// NATS takes messages of 1 MiB, so a hint has at most [MaxBytes]: longer prompts are cut to whole pages.
//
// # Concurrency
//
// There is no state.
//
// # Ownership
//
// What [Parse] returns aliases the message.
//
// # Errors
//
// [ErrMalformed] is a message that is no hint, [ErrVersion] one of another version.
package hint
