package openai

import "hash/maphash"

// HasBody reports whether a body was parsed.
func (r *Request) HasBody() bool { return len(r.body) > 0 }

// Digest names what an engine computes for the body: two bodies that differ in the order of their members, or in
// what only names or routes a request, have the same. The body must have passed Parse.
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
		if namesOnly(key) {
			return
		}
		h.Reset()
		_, _ = h.Write(key)
		_ = h.WriteByte(0)
		_, _ = h.Write(r.body[lo:hi])
		sum += h.Sum64() // whatever the order
	})
	return sum
}

// namesOnly says that a member does not change what is computed, and may change with each try of a client.
func namesOnly(key []byte) bool {
	switch string(key) {
	case "rid", "user", "metadata", "stream", "stream_options", "session_id", "conversation_id", "received_time", "priority",
		"custom_labels", "no_logs", "log_metrics", "background", "routing_key", "safety_identifier", "prompt_cache_key", "store",
		"external_trace_header", "routed_dp_rank", "data_parallel_rank", "disagg_prefill_dp_rank",
		"bootstrap_host", "bootstrap_port", "bootstrap_room":
		return true
	}
	return false
}
