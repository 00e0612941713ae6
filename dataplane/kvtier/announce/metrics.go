package announce

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/warmpath/warmpath/dataplane/kvtier/proto"
)

// counts of an Announcer.
type counts struct {
	messages, bytes, stored, removed, failed atomic.Uint64
	// Answers by type; questions that cannot be read.
	contents, missing, lost, malformed atomic.Uint64
	// Gaps of the source; pages of too many kinds.
	forgotten, leftOut atomic.Uint64
}

// published counts a report.
func (c *counts) published(list []proto.Change, bytes int) {
	removed := uint64(0)
	for i := range list {
		if list[i].Removed {
			removed++
		}
	}
	c.messages.Add(1)
	c.bytes.Add(uint64(bytes))
	c.removed.Add(removed)
	c.stored.Add(uint64(len(list)) - removed)
}

// Collector returns the announcer's metrics, all of which begin with warmpath_kv_tier_.
func (a *Announcer) Collector() prometheus.Collector { return collector{&a.counts} }

type collector struct{ *counts }

// Describe implements prometheus.Collector. It names none: Collect does.
func (collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) {
	count := func(d *prometheus.Desc, n *atomic.Uint64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n.Load()), labels...)
	}
	pages := prometheus.NewDesc("warmpath_kv_tier_announced_pages_total", "KV pages announced to routers.", []string{"change"}, nil)
	count(pages, &c.stored, "stored")
	count(pages, &c.removed, "gone")
	count(prometheus.NewDesc("warmpath_kv_tier_announced_bytes_total", "Bytes of announcements.", nil, nil), &c.bytes)
	reports := prometheus.NewDesc("warmpath_kv_tier_announcements_total", "Announcements of the KV tier's pages, and answers to routers.", []string{"kind"}, nil)
	for kind, n := range map[string]*atomic.Uint64{
		"message": &c.messages, "failed": &c.failed, "contents": &c.contents, "missed": &c.missing, "lost": &c.lost, "malformed": &c.malformed,
		"forgotten": &c.forgotten,
	} {
		count(reports, n, kind)
	}
	count(prometheus.NewDesc("warmpath_kv_tier_unannounced_pages_total", "KV pages not announced, as the tier has more kinds than a message can name.", nil, nil), &c.leftOut)
}
