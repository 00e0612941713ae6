// Package openai reads the fields that routing needs from requests and answers, checks bodies, and
// words the errors that clients get, for the OpenAI API as SGLang serves it and for SGLang's own
// /generate.
//
// A body is walked once. The walk checks all of it as JSON and keeps only the fields that decide
// its route. The worker judges all other fields, so that a router in front of a newer SGLang
// refuses nothing that the worker would take. Bodies are forwarded unchanged: [SpliceField] adds a
// field without a copy.
//
// JSON is read strictly: no NaN, no control characters in strings, no invalid UTF-8, nesting to
// 1,024 levels. SGLang 0.5.23 parses with orjson and refuses the same, and lone surrogate escapes
// besides. Of equal keys the last wins, as in Python. Refused here although a worker's lenient
// types may take it: a "stream" that Pydantic does not read as a boolean, and token ids above
// 2³²-1.
//
// # Concurrency
//
// A [Request] and a [UsageScanner] belong to one goroutine at a time. The functions share no state.
//
// # Ownership
//
// After Parse a Request's byte slices alias the body, or its own memory where they had escapes
// (Text and names of sessions), and InputIDs is its own memory: all of it is valid until the next
// Parse or Reset, and as long as the body is not changed. Strings (Model, RID, and so on) are
// copies.
//
// # Errors
//
// Every error that Parse returns is an [*Error]: status, type, message, parameter and code as
// OpenAI's clients expect them.
package openai
