// Package lint finds prompts with changing parts before stable ones: a time stamp in the first line
// of a system prompt makes everything behind it a miss of the prefix cache.
//
// It is a package of the data plane because the router uses it on live traffic; `warmpath lint`
// uses it on files.
//
// # Method
//
// A prompt is a list of units: words and signs of text, token ids, or blocks of a trace. Prompts of
// one template have units in common, at any position: runs of 6 units that come in a tenth as many
// prompts as the prompt's most frequent run does. Prompts with half of those in common are a group.
// Of a chat only the system message and the tools are compared, where it has them. A name or a time
// in the first line so changes nothing.
//
// In a group, a unit is stable when it is part of a run of 16 units or more that nine of ten
// prompts have, at any position. The units that a prompt shares now are its longest common
// beginning with another one of the group. With stable units first, it would share the stable units
// behind that beginning too.
//
// Text is counted as 4 bytes a token, as the router does for prompts without known ids.
//
// # Concurrency
//
// Functions may be called from any goroutine. A Sampler's Offer may too, and never blocks; its Run
// is one goroutine.
//
// # Ownership
//
// Prompts are read only, and excerpts in reports are copies.
//
// # Errors
//
// ErrBody is a body without a prompt.
package lint
