// Package chattemplate renders chat requests to prompt text, byte for byte as SGLang does on a
// worker.
//
// A model's chat template is Jinja. [Compile] turns it into a tree that renders straight into a
// byte buffer, from values decoded from the request's JSON: no Python, no map of any. Semantics are
// those of jinja2 3.1 in the sandbox that transformers sets up (trim_blocks, lstrip_blocks, break
// and continue, generation blocks, its own tojson, raise_exception, strftime_now): Python's truth,
// order, slices, numbers, representations, and Jinja's scopes and undefined values.
//
// [New] makes a [Model], which prepares a request as SGLang does before it calls the template. The
// preparation differs between releases of SGLang; [Engine] names the release, and engine.go lists
// the differences.
//
// # Why no library
//
// Of 7,153 small templates over every construct, minijinja-go (August 2026, alpha) renders 68 %
// as Jinja does, ardanlabs/jinja 1.8 45 % and gonja 2.9 41 %: they lose the order of keys, Python's
// numbers and representations, and render where Python raises. Only the first bounds its work.
//
// # No wrong text
//
// A worker can always tokenize instead, so this package returns an error where it might render
// another text than the worker. [Compile] names constructs that it does not support, with their
// lines ([UnsupportedError]): Jinja has many that no chat template uses. Differences that depend on
// values (the remainder of a float, the case of a rare letter, an integer beyond 64 bits) end the
// render with [ErrUnsupported]. So does every request that SGLang's pydantic models would convert
// or refuse. [ErrTemplate] is certain: Python raises too.
//
// # Hostile input
//
// Requests come from untrusted clients. [Limits] bound the text, the memory and the steps of a
// render; nesting, recursion and ranges have bounds of their own. A panic is a bug, and still ends
// as an error.
//
// # Concurrency
//
// A [Template] and a [Model] may be used by any number of goroutines.
//
// # Ownership
//
// A request's bytes are read during the call and not kept; they must not change meanwhile. Text is
// appended to the caller's slice.
//
// # Errors
//
// [ErrTemplate], [ErrUnsupported], [ErrLimit] of a render; [ErrSyntax] and [ErrUnsupported] of
// [Compile]; [ErrNoTemplate] of [Load].
package chattemplate
