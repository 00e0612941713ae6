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

var (
	announcedPages = prometheus.NewDesc("warmpath_kv_tier_announced_pages_total", "KV pages announced to routers.", []string{"change"}, nil)
	announcedBytes = prometheus.NewDesc("warmpath_kv_tier_announced_bytes_total", "Bytes of announcements.", nil, nil)
	announcements  = prometheus.NewDesc("warmpath_kv_tier_announcements_total", "Announcements of the KV tier's pages, and answers to routers.", []string{"kind"}, nil)
	unannounced    = prometheus.NewDesc("warmpath_kv_tier_unannounced_pages_total", "KV pages not announced, as the tier has more kinds than a message can name.", nil, nil)
)

// Collector returns the announcer's metrics, all of which begin with warmpath_kv_tier_.
func (a *Announcer) Collector() prometheus.Collector { return collector{&a.counts} }

type collector struct{ counts *counts }

// Describe implements prometheus.Collector.
func (collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{announcedPages, announcedBytes, announcements, unannounced} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) {
	n := c.counts
	count := func(d *prometheus.Desc, v uint64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	count(announcedPages, n.stored.Load(), "stored")
	count(announcedPages, n.removed.Load(), "gone")
	count(announcedBytes, n.bytes.Load())
	for kind, v := range map[string]uint64{
		"message": n.messages.Load(), "failed": n.failed.Load(), "contents": n.contents.Load(), "missed": n.missing.Load(), "lost": n.lost.Load(),
		"malformed": n.malformed.Load(), "forgotten": n.forgotten.Load(),
	} {
		count(announcements, v, kind)
	}
	count(unannounced, n.leftOut.Load())
}
