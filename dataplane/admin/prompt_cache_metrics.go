package admin

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/warmpath/warmpath/dataplane/prompt/promptcache"
)

// promptCacheCollector reads the counters of the prompt cache at each scrape.
type promptCacheCollector struct{ cache *promptcache.Cache }

var (
	descPromptLists = desc("session_prompts_total",
		"Prompts of token ids long enough for the prompt cache: known ones began like an "+
			"earlier prompt, fresh ones did not.", "result")
	descPromptBytes = desc("session_prompt_bytes_total",
		"Bytes of those prompts' ids: recalled ones were found in the prompt cache, parsed "+
			"ones were not.", "kind")
	descPromptEvicted = desc("session_evictions_total",
		"Pieces of prompts that the prompt cache evicted.")
	descPromptPieces = desc("session_pieces",
		"Pieces of prompts in the prompt cache, of some 4 KiB of JSON each.")
	descPromptMemory = desc("session_cache_bytes", "Memory of the prompt cache.")
)

// Describe implements prometheus.Collector.
func (promptCacheCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descPromptLists, descPromptBytes, descPromptEvicted, descPromptPieces, descPromptMemory,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c promptCacheCollector) Collect(ch chan<- prometheus.Metric) {
	st, out := c.cache.Stats(), sink{ch}
	out.counter(descPromptLists, float64(st.Known), "known")
	out.counter(descPromptLists, float64(st.Fresh), "fresh")
	out.counter(descPromptBytes, float64(st.RecalledBytes), "recalled")
	out.counter(descPromptBytes, float64(st.ParsedBytes), "parsed")
	out.counter(descPromptEvicted, float64(st.Evicted))
	out.gauge(descPromptPieces, float64(st.Pieces))
	out.gauge(descPromptMemory, float64(st.Bytes))
}
