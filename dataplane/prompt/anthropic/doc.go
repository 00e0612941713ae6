// Package anthropic reads bodies of Anthropic's Messages API, and words errors as its clients
// expect them.
//
// SGLang serves /v1/messages by conversion: it makes a chat completions request of the body and
// goes on as for one. [AppendChat] makes the same conversion (SGLang 0.5.23,
// srt/entrypoints/anthropic/serving.py), so that the chat template and the tokenizer of the router
// make the ids that the engine sees. The worker gets the client's body unchanged.
//
// The conversion copies texts as they are written, escapes included. Of images only a checksum is
// kept, by which equal prompts are known. Fields that the conversion does not read are left out, as
// SGLang ignores them.
//
// # Exactness
//
// AppendChat says whether the conversion is SGLang's. It is not for kinds of content that are rare
// (search results), and where a rule of the model is needed that is not known. Then the chat still
// has the texts of the body in their order. Of a body that SGLang refuses it may say either.
//
// # Concurrency
//
// The functions share no state.
//
// # Ownership
//
// Chats and errors are appended to the caller's memory. The body is read during the call only.
//
// # Errors
//
// AppendChat returns an [openai.Error] for a body that is not JSON, or not an object.
package anthropic
