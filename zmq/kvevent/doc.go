// Package kvevent decodes and encodes the KV-cache events and load reports that inference engines publish.
//
// An engine's message is one msgpack batch, an array [ts float64, [event …], rank int|nil]. What an event looks like
// changed with the releases; [Batch.Decode] tells them apart by shape, so it needs no setting:
//
//	SGLang <= 0.5.8     array [tag, hashes, parent, token_ids, block_size, lora_id]
//	SGLang 0.5.10-15    + medium
//	SGLang 0.5.18       + a map {cache_salt}, on salted blocks only
//	SGLang 0.5.20-23    a map with the key "type"; optionals left out when nil; later lora_name
//	vLLM, older         the array, then lora_name, extra_keys, group_idx, kv_cache_spec_kind, …_sliding_window
//	vLLM 0.32           a map; hashes are uint64 or 32-byte bin
//
// [Append] writes the bytes of one named release, which is what a simulated worker sends. The vectors that both are
// held to were captured from the releases' own publishers (testdata/vectors/README.md). Decode also reads what no engine sends
// today and can mean one thing only: batches as maps, bytes for strings, stores that do not say their block size.
//
// # Concurrency
//
// A Batch, a Load and a Chain belong to one goroutine at a time. The package keeps no state of its own.
//
// # Ownership
//
// Decode reuses the Batch's memory: everything reachable from Batch.Events is valid until the next Decode on it.
// Byte slices (LoRAName, CacheSalt, RawHashes, ExtraKeys, …) alias the payload: copy what you keep, and keep the payload
// unchanged as long as you read them. Append and AppendJSON copy all they need.
//
// # Errors
//
// [ErrMalformed] is the only error of the decoders: truncated bytes, trailing bytes, a batch that is none. What a decoder
// does not know (a new field, a new kind of event) is skipped and counted, never an error, since an engine's next release
// must not silence its events. So is an event that makes no sense (Batch.BadEvents), as one with a wrong type where the
// field is known and matters: it takes no other with it. [ErrUnknownEncoding] comes from [ParseEncoding].
package kvevent
