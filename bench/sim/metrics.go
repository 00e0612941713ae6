package sim

import (
	"fmt"

	"github.com/valyala/fasthttp"
)

// metric is one sglang:* family of every rank.
type metric struct {
	name, kind, help string
	value            func(s *snapshot) float64
}

// metricFamilies are SGLang's families that routers use.
func metricFamilies() []metric {
	return []metric{
		{"num_running_reqs", "gauge", "The number of running requests.", func(s *snapshot) float64 { return float64(s.load.Running) }},
		{"num_queue_reqs", "gauge", "The number of requests in the waiting queue.", func(s *snapshot) float64 { return float64(s.load.Waiting) }},
		{"num_used_tokens", "gauge", "The number of used tokens.", func(s *snapshot) float64 { return float64(s.load.Tokens) }},
		{"max_total_num_tokens", "gauge", "Maximum total number of tokens in the KV cache pool.", func(s *snapshot) float64 { return float64(s.load.MaxTotal) }},
		{"token_usage", "gauge", "The token usage.", func(s *snapshot) float64 { return ratio(int(s.load.Tokens), int(s.load.MaxTotal)) }},
		{"cache_hit_rate", "gauge", "The prefix cache hit rate.", func(s *snapshot) float64 { return s.hitRate }},
		{"gen_throughput", "gauge", "The generation throughput (token/s).", func(s *snapshot) float64 { return s.rate }},
		{"prompt_tokens_total", "counter", "Number of prefill tokens processed.", func(s *snapshot) float64 { return float64(s.count.prompts) }},
		{"cached_tokens_total", "counter", "Number of cached prompt tokens.", func(s *snapshot) float64 { return float64(s.count.cached) }},
		{"generation_tokens_total", "counter", "Number of generation tokens processed.", func(s *snapshot) float64 { return float64(s.count.answers) }},
		{"num_requests_total", "counter", "Number of requests processed.", func(s *snapshot) float64 { return float64(s.count.requests) }},
		{"num_aborted_requests_total", "counter", "Number of requests aborted.", func(s *snapshot) float64 { return float64(s.count.aborted) }},
		{"evicted_tokens_total", "counter", "The number of tokens evicted from the cache.", func(s *snapshot) float64 { return float64(s.evicted) }},
	}
}

// metrics serves /metrics in Prometheus's text format.
func (a *infoAPI) metrics(ctx *fasthttp.RequestCtx) {
	snaps := make([]snapshot, len(a.ranks))
	for i, k := range a.ranks {
		snaps[i] = k.report.snapshot()
	}
	var b []byte
	for _, m := range metricFamilies() {
		b = appendFamily(b, m.name, m.kind, m.help)
		for i := range snaps {
			b = fmt.Appendf(b, "sglang:%s%s ", m.name, a.labels(i))
			b = append(appendFloat(b, m.value(&snaps[i])), '\n')
		}
	}
	ctx.SetContentType("text/plain; version=1.0.0; charset=utf-8; escaping=underscores")
	ctx.SetBody(b)
}

func appendFamily(dst []byte, name, kind, help string) []byte {
	return fmt.Appendf(dst, "# HELP sglang:%s %s\n# TYPE sglang:%s %s\n", name, help, name, kind)
}

func (a *infoAPI) labels(rank int) string {
	dp := ""
	if a.cfg.DPSize > 1 {
		dp = fmt.Sprintf(`,dp_rank="%d"`, rank)
	}
	return fmt.Sprintf(`{engine_type="%s",model_name=%q%s,moe_ep_rank="0",pp_rank="0",tp_rank="0"}`, engineType(a.cfg.Mode), a.cfg.Model, dp)
}

// engineType is SGLang's name of a mode in its metrics.
func engineType(mode string) string {
	if mode == "" {
		return "unified"
	}
	return mode
}
