// Package lint finds prompts whose changing parts stand before stable ones: a
// time stamp in the first line of a system prompt makes everything behind it a
// miss of the prefix cache, however equal it is.
//
// It is a package of the data plane because the router uses it on live
// traffic; `warmpath lint` uses it on files.
//
// # How it finds them
//
// A prompt is a list of units: words and signs of text, token ids, or blocks of
// a trace. Prompts of one template are found by what they have in common,
// wherever it stands: runs of 6 units that come in a tenth as many prompts as
// the prompt's most frequent run does. Prompts with half of those in common are
// a group. Of a chat only the system message and the tools are compared, where it
// has them. A name or a time in the first line so changes nothing.
//
// In a group, a unit is stable when it is part of a run of 16 units or more that
// nine of ten prompts have, at any place. What a prompt could share now is its
// longest common beginning with another one of the group; what it could share is
// that and the stable units behind it, if they stood first.
//
// Text is counted as 4 bytes a token, as the router does for prompts whose ids
// it does not know.
//
// # Concurrency
//
// Functions may be called from any goroutine. A Sampler's Offer may too, and
// never blocks; its Run is one goroutine.
//
// # Ownership
//
// Prompts are read only, and excerpts in reports are copies.
//
// # Errors
//
// ErrBody is a body without a prompt.
package lint
