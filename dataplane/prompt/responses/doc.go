// Package responses reads bodies of OpenAI's Responses API (/v1/responses) and writes the chat that
// SGLang makes of them: the fields of a chat-completions body that decide the prompt. Template and
// tokenizer of the model then make the token ids, as for chats.
//
// The conversion is that of SGLang 0.5.23 (entrypoints/openai/serving_responses.py and
// responses_adapters.py), proved by vectors that SGLang's own code made (testdata). Models with a
// harmony prompt (gpt-oss) have no chat: the engine renders tokens from the items, and a router
// must not claim to know them.
//
// A body is read in one pass; strings are copied as they are written, with their escapes.
//
// # Concurrency
//
// A [Converter] belongs to one goroutine at a time. The functions share no state.
//
// # Ownership
//
// AppendChat appends to the caller's memory and keeps no slice of its arguments.
//
// # Errors
//
// [ErrRefused] marks bodies that every engine refuses, [ErrUnsupported] bodies with a chat that is
// not known exactly. Such requests are routed without ids, and the engine answers.
package responses
