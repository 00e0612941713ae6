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
