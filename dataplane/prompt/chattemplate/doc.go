// Package chattemplate renders chat requests to prompt text, byte for byte as SGLang does on a worker.
//
// A model's chat template is Jinja. [Compile] turns it into a tree that renders straight into a byte buffer, from values that are read out of
// the request's JSON: no Python, no map of any. Semantics are those of jinja2 3.1 in the sandbox that transformers sets up (trim_blocks,
// lstrip_blocks, break and continue, generation blocks, its own tojson, raise_exception, strftime_now): Python's truth, order, slices, numbers,
// representations, and Jinja's scopes and undefined values.
//
// [New] makes a [Model], which does to a request what SGLang does before it calls the template. What that is differs between its releases;
// [Engine] names the release, and engine.go lists the differences.
//
// # Never a wrong text
//
// The worker is always there to be asked, so this package would rather say nothing than something wrong. What a template uses and what is
// not rendered here is found when the template is compiled, and named with its line ([UnsupportedError]). What only shows while rendering
// (a format specification, the case of a rare letter, an integer beyond 64 bits) ends in [ErrUnsupported]. So does every request that SGLang's
// pydantic models would convert or refuse. [ErrTemplate] is for certain: Python raises as well.
//
// # Hostile input
//
// Requests come from anyone. [Limits] bound the text, the memory and the steps of a render; nesting, recursion and ranges have bounds of their
// own. A panic would be a bug, and still ends as an error.
//
// # Concurrency
//
// A [Template] and a [Model] may be used by any number of goroutines.
//
// # Ownership
//
// A request's bytes are read during the call and not kept; they must not change meanwhile. Text is appended to what the caller passes.
//
// # Errors
//
// [ErrTemplate], [ErrUnsupported], [ErrLimit] of a render; [ErrSyntax] and [ErrUnsupported] of [Compile]; [ErrNoTemplate] of [Load].
package chattemplate
