// Package tokens gets the token ids of a prompt: from this process, where it has the model's files
// and its ids proved equal to those of the workers ([Models]), else from the worker that would
// tokenize the prompt anyway ([Source]). It remembers the worker's answers to prompts that come
// again.
//
// A worker's POST /v1/tokenize applies the model's own chat template and tokenizer, so its ids are
// the ones that the engine's prefix cache is keyed by, for any model. The price is a round trip on
// a miss. A miss is therefore bounded by a deadline, shared by equal prompts, and never blocks
// routing: without ids the request is routed by its text or its load.
//
// One model name is taken to mean one tokenizer and one template on all workers that serve it.
//
// # Proof
//
// Workers of a model are alike where the contents of their files are, and are compared again
// whenever one comes or goes. Ids made here are not believed at first: three answers in a row that
// equal the worker's, for each kind of prompt (text, chat, chat with tools or template arguments),
// verify them. From then on each answer's prompt_tokens is compared, and all ids of one prompt in
// 256 in the background; a difference ends it until 200 in a row were equal. A prompt that exceeds
// the limits of its tokenizer or template sets this aside for a minute, doubled each time up to an
// hour (rest.go). A prompt that cannot be rendered goes to /v1/tokenize, and without that to the
// approximate tree. The client's bytes are forwarded unchanged, so a wrong id costs a worse choice
// and never a wrong answer.
//
// Turn n of a conversation is rendered whole, since templates may change earlier messages
// (reasoning is dropped from earlier turns), and compared with the prompt cache, which keeps
// rendered text in pieces that end behind special tokens, with their ids and block hashes. Tokens
// behind a special token do not depend on the text before it, so only new text is tokenized.
//
// # Concurrency
//
// A Source may be used from any number of goroutines; it starts none. The cache has one mutex,
// which is never held during a fetch. Callers that ask for the same prompt while it is fetched wait
// for the first of them; the fetch runs on that caller's goroutine. Models loads files in the
// background and compares samples in Run. Locks are never nested.
//
// # Ownership
//
// Returned ids and hashes are shared by all callers and by the cache: never write to them, never
// append to them in place. They stay valid after they leave the cache, until the caller's Release.
// The request is read during the call only.
//
// # Errors
//
// [ErrUnavailable] is the one to test for; [ErrNotText], [ErrUnsupported] and [ErrPaused] give the
// reason and wrap it. Each means: route without tokens.
package tokens
