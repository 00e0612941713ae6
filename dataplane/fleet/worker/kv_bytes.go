package worker

import "github.com/valyala/fastjson"

// parseTokenBytes works out what KV takes of a token, over all GPUs that compute it, from what server_info says of memory: GiB of the pool of
// one of them and its tokens. The former is rounded to 1 MiB; 0 where it says too little. Where each GPU keeps all of it (MLA), this is too much.
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
	if !(gib > 0.05 && tokens > 0 && tp <= maxDP && bytes >= 1 && bytes <= 1<<26) { // below 50 MiB rounding is a part of it
		return 0
	}
	return bytes
}
