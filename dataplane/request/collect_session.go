package request

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/warmpath/warmpath/dataplane/prompt/promptcache"
)

// sessionCollector reads the counters of the session cache at each scrape.
type sessionCollector struct{ cache *promptcache.Cache }

var (
	descSessionLists = desc("session_prompts_total",
		"Prompts of token ids long enough to be remembered: known ones began like an earlier prompt, fresh ones did not.", "result")
	descSessionBytes = desc("session_prompt_bytes_total",
		"Bytes of those prompts' ids: recalled ones were compared with remembered ones, parsed ones were not known.", "kind")
	descSessionEvicted = desc("session_evictions_total", "Pieces of prompts that were forgotten to make room.")
	descSessionPieces  = desc("session_pieces", "Pieces of prompts that are remembered, of some 4 KiB of JSON each.")
	descSessionMemory  = desc("session_cache_bytes", "Memory of the session cache.")
)

// Describe implements prometheus.Collector.
func (c sessionCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descSessionLists, descSessionBytes, descSessionEvicted, descSessionPieces, descSessionMemory,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c sessionCollector) Collect(ch chan<- prometheus.Metric) {
	st := c.cache.Stats()
	counter := func(d *prometheus.Desc, v uint64, label ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), label...)
	}
	counter(descSessionLists, st.Known, "known")
	counter(descSessionLists, st.Fresh, "fresh")
	counter(descSessionBytes, st.RecalledBytes, "recalled")
	counter(descSessionBytes, st.ParsedBytes, "parsed")
	counter(descSessionEvicted, st.Evicted)
	ch <- prometheus.MustNewConstMetric(descSessionPieces, prometheus.GaugeValue, float64(st.Pieces))
	ch <- prometheus.MustNewConstMetric(descSessionMemory, prometheus.GaugeValue, float64(st.Bytes))
}
