package worker

import "github.com/valyala/fastjson"

// parseTokenBytes returns the KV size of a token over all GPUs that compute it. server_info has
// the size of the pool on one GPU in GiB, rounded to 1 MiB, and its tokens; 0 where they are
// missing. It is too large where each GPU keeps all of it (MLA).
func parseTokenBytes(v *fastjson.Value) float64 {
	m := v.Get("internal_states", "0", "memory_usage")
	if m == nil {
		m = v.Get("memory_usage")
	}
	if m == nil {
		return 0
	}
	gib, tokens, tp := m.GetFloat64("kvcache"), m.GetFloat64("token_capacity"), float64(max(v.GetInt("tp_size"), 1))
	bytes := gib * (1 << 30) / tokens * tp
	if !(gib > 0.05 && tokens > 0 && tp <= maxDP && bytes >= 1 && bytes <= 1<<26) { // below 50 MiB rounding distorts the result
		return 0
	}
	return bytes
}
