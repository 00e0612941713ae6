package openai

import "hash/maphash"

// Digest returns a hash of the fields that decide an engine's computation: two bodies that differ
// in the order of their members, or in fields that only name or route a request, have the same. The
// body must have passed Parse.
func (r *Request) Digest(seed maphash.Seed) (sum uint64) {
	var h maphash.Hash
	h.SetSeed(seed)
	_ = h.WriteByte(byte(r.API))
	sum = h.Sum64()
	i := 0
	for i < len(r.body) && r.body[i] != '{' {
		i++
	}
	_, _ = Members(r.body, i, func(key []byte, lo, hi int) {
		if isRoutingOnly(key) {
			return
		}
		h.Reset()
		_, _ = h.Write(key)
		_ = h.WriteByte(0)
		_, _ = h.Write(r.body[lo:hi])
		sum += h.Sum64() // a sum, so that order does not count
	})
	return sum
}

// isRoutingOnly reports whether a member does not change the computation, and may change with each
// try of a client.
func isRoutingOnly(key []byte) bool {
	switch string(key) {
	case "rid", "user", "metadata", "stream", "stream_options", "session_id", "conversation_id", "received_time", "priority",
		"custom_labels", "no_logs", "log_metrics", "background", "routing_key", "safety_identifier", "prompt_cache_key", "store",
		"external_trace_header", "routed_dp_rank", "data_parallel_rank", "disagg_prefill_dp_rank",
		"bootstrap_host", "bootstrap_port", "bootstrap_room":
		return true
	}
	return false
}

// likenessBytes is the number of bytes of each end of a prompt in its likeness.
const likenessBytes = 64

// Likeness is a weak Digest that costs the same for any prompt: of its length and its ends. Equal
// prompts have the same; others may. 0 is a body without a prompt.
func (r *Request) Likeness(seed maphash.Seed) uint64 {
	if r.HasIDs {
		return likenessOfIDs(seed, r.InputIDs) ^ uint64(r.maxID)<<32
	}
	raw := r.Prompt
	for _, f := range [...]field{fieldMessages, fieldInput, fieldInputEmbeds, fieldItems} {
		if raw == nil {
			raw = r.raw(f)
		}
	}
	if raw == nil {
		return 0
	}
	begin, end := raw[:min(len(raw), likenessBytes)], raw[max(len(raw)-likenessBytes, 0):]
	return maphash.Bytes(seed, begin) ^ maphash.Bytes(seed, end)*3 + uint64(len(raw))*0x9e3779b97f4a7c15
}

func likenessOfIDs(seed maphash.Seed, ids []uint32) uint64 {
	var ends [2 * likenessBytes / 4]uint32
	n := copy(ends[:likenessBytes/4], ids)
	copy(ends[n:], ids[max(len(ids)-likenessBytes/4, 0):])
	return maphash.Comparable(seed, ends) + uint64(len(ids))*0x9e3779b97f4a7c15
}
