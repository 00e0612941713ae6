// Package kvevent decodes and encodes the KV-cache events and load reports of inference engines.
//
// An engine's message is one msgpack batch, an array [ts float64, [event …], rank int|nil]. The
// form of an event depends on the release; [Batch.Decode] recognizes it by its shape, without a
// setting:
//
//	SGLang <= 0.5.8     array [tag, hashes, parent, token_ids, block_size, lora_id]
//	SGLang 0.5.10-15    + medium
//	SGLang 0.5.18       + a map {cache_salt}, on salted blocks only
//	SGLang 0.5.20-23    a map with the key "type"; optionals left out when nil; later lora_name
//	vLLM, older         the array, then lora_name, extra_keys, group_idx, kv_cache_spec_kind,
//	                    …_sliding_window
//	vLLM 0.32           a map; hashes are uint64 or 32-byte bin
//
// [Append] writes the bytes of one named release, for simulated workers. Vectors captured from
// the releases' own publishers test both (testdata/vectors/README.md). Decode also reads
// unambiguous forms that no engine sends today: batches as maps, bytes for strings, stores
// without a block size.
//
// # Concurrency
//
// A Batch, a Load and a Chain belong to one goroutine at a time. The package has no state.
//
// # Ownership
//
// Decode reuses the Batch's memory: everything reachable from Batch.Events is valid until the
// next Decode. Byte slices (LoRAName, CacheSalt, RawHashes, ExtraKeys, …) alias the payload,
// which must not change while they are read. Append and AppendJSON copy all that they need.
//
// # Errors
//
// [ErrMalformed] is the only error of the decoders: truncated bytes, trailing bytes, or not a
// batch. Unknown fields and unknown kinds of events are skipped and counted, because an
// engine's next release must not silence its events. An event with a wrong type in a known
// field that matters is skipped alone (Batch.BadEvents). [ErrUnknownEncoding] is returned by
// [ParseEncoding].
package kvevent
