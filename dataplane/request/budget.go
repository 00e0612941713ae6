package request

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/warmpath/warmpath/radix"
)

var (
	descIndexMax     = desc("index_max_bytes", "Bound of index_bytes, without predictions; 0: none.")
	descIndexDomains = desc("index_domains", "Models, block sizes, adapters and salts that the index keeps apart.")
	descIndexEvicted = desc("index_evicted_blocks_total", "Block copies that the index's bound cost.")
	descIndexRefused = desc("index_refused_stores_total", "Stores that the index has no place for: parent (it was evicted) or room.", "reason")
)

// budgetCollector reads what the index's bound costs at each scrape.
type budgetCollector struct{ index *radix.Index }

var _ prometheus.Collector = budgetCollector{}

// Describe implements prometheus.Collector.
func (c budgetCollector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

// Collect implements prometheus.Collector.
func (c budgetCollector) Collect(ch chan<- prometheus.Metric) {
	st := c.index.Stats()
	ch <- prometheus.MustNewConstMetric(descIndexMax, prometheus.GaugeValue, float64(st.MaxBytes))
	ch <- prometheus.MustNewConstMetric(descIndexDomains, prometheus.GaugeValue, float64(st.Domains))
	ch <- prometheus.MustNewConstMetric(descIndexEvicted, prometheus.CounterValue, float64(st.EvictedBlocks))
	ch <- prometheus.MustNewConstMetric(descIndexRefused, prometheus.CounterValue, float64(st.EvictedParents), "parent")
	ch <- prometheus.MustNewConstMetric(descIndexRefused, prometheus.CounterValue, float64(st.Refused), "room")
}
