// Package ollama reads bodies of Ollama's API, and words errors as its clients expect them.
//
// SGLang serves /api/chat and /api/generate by conversion (SGLang 0.5.23,
// srt/entrypoints/ollama/serving.py): messages go through the tokenizer's own template, and a
// prompt is a text as of /generate. [AppendChat] and [AppendGenerate] make the same conversions, so
// that the router finds the prompt that the engine sees. The worker gets the client's own body.
// SGLang reads the role and the text of a message, and a few of the options; the rest is left out
// here too.
//
// # Concurrency
//
// The functions share no state.
//
// # Ownership
//
// Requests and errors are appended to the caller's memory. The body is read during the call only.
//
// # Errors
//
// The conversions return an [openai.Error] for a body that is not JSON, or not an object, and for
// a negative num_predict, which SGLang answers with a status 500 or with none.
package ollama
