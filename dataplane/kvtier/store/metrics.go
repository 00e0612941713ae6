package store

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/warmpath/warmpath/dataplane/cluster"
)

// Record is what the cluster is told of the tier.
func (t *Tier) Record() *cluster.Tier {
	s := t.Stats()
	r := &cluster.Tier{Bytes: s.Bytes, Used: s.Used, Pages: s.Pages, Endpoint: t.Endpoint(), Speed: s.ReadSpeed}
	if a := t.offering(); a != nil {
		r.Agent = a.Name()
	}
	return r
}

// series is one metric, read from Stats.
type series struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*Stats) float64
}

// collector gives a tier's Stats to Prometheus.
type collector struct {
	tier   *Tier
	series []series
}

// Collector returns the tier's metrics, all of which begin with warmpath_kv_tier_.
func (t *Tier) Collector() prometheus.Collector {
	c := &collector{tier: t}
	add := func(kind prometheus.ValueType, name, help string, value func(*Stats) float64) {
		c.series = append(c.series, series{prometheus.NewDesc("warmpath_kv_tier_"+name, help, nil, nil), kind, value})
	}
	gauge := func(name, help string, f func(*Stats) int64) {
		add(prometheus.GaugeValue, name, help, func(s *Stats) float64 { return float64(f(s)) })
	}
	count := func(name, help string, f func(*Stats) int64) {
		add(prometheus.CounterValue, name+"_total", help, func(s *Stats) float64 { return float64(f(s)) })
	}
	gauge("bytes", "Bound of the KV tier.", func(s *Stats) int64 { return s.Bytes })
	gauge("used_bytes", "Bytes of KV pages held.", func(s *Stats) int64 { return s.Used })
	gauge("pages", "KV pages held.", func(s *Stats) int64 { return s.Pages })
	gauge("pins", "Pages that readers hold.", func(s *Stats) int64 { return s.Pins })
	gauge("clients", "Connections of engines.", func(s *Stats) int64 { return s.Clients })
	gauge("peers", "Tiers of other nodes that answer.", func(s *Stats) int64 { return s.Peers })
	gauge("quarantined_pages", "Pages of transfers that were given up and may still be written to.", func(s *Stats) int64 { return s.Quarantined })
	gauge("read_bytes_per_second", "How fast engines copied what they asked for, of late; 0 is not known.", func(s *Stats) int64 { return int64(s.ReadSpeed) })
	count("pulled_nixl_pages", "Pages pulled from peers by NIXL; the others came by TCP.", func(s *Stats) int64 { return s.PulledNIXL })
	count("asked_pages", "Pages that engines asked for.", func(s *Stats) int64 { return s.Asked })
	count("found_pages", "Pages of them that were here from the first on.", func(s *Stats) int64 { return s.Found })
	count("read_pages", "Pages given to engines.", func(s *Stats) int64 { return s.Read })
	count("missed_pages", "Pages that engines were to read and that were not here.", func(s *Stats) int64 { return s.Missed })
	count("stored_pages", "Pages stored, by engines and from peers.", func(s *Stats) int64 { return s.Stored })
	count("evicted_pages", "Pages evicted.", func(s *Stats) int64 { return s.Evicted })
	count("clears", "Times that all pages of a model were dropped, for an engine here or a peer's.", func(s *Stats) int64 { return s.Clears })
	count("full_pages", "Pages that found no room, since all others were in use.", func(s *Stats) int64 { return s.Full })
	count("remote_asked_pages", "Pages that peers were asked for.", func(s *Stats) int64 { return s.RemoteAsked })
	count("remote_found_pages", "Pages of them that a peer had.", func(s *Stats) int64 { return s.RemoteFound })
	count("pulled_pages", "Pages pulled from peers.", func(s *Stats) int64 { return s.Pulled })
	count("pulled_bytes", "Bytes pulled from peers.", func(s *Stats) int64 { return s.PulledBytes })
	count("too_slow", "Questions that a peer was not asked, since its link brings pages slower than engines compute them.", func(s *Stats) int64 { return s.TooSlow })
	count("pull_failures", "Pulls that failed.", func(s *Stats) int64 { return s.PullFailures })
	count("served_pages", "Pages given to peers.", func(s *Stats) int64 { return s.Served })
	count("hinted_pages", "Pages that routers said would be asked for.", func(s *Stats) int64 { return s.Hinted })
	count("hints", "Hints of routers: which pages of a request's prompt will be asked for.", func(s *Stats) int64 { return s.Hints.Received })
	count("hints_refused", "Hints that cannot be read.", func(s *Stats) int64 { return s.Hints.Refused })
	count("hints_duplicate", "Hints for pages that another one was for shortly before.", func(s *Stats) int64 { return s.Hints.Duplicate })
	count("hints_dropped", "Hints dropped while too many were worked on.", func(s *Stats) int64 { return s.Hints.Dropped })
	count("hints_unknown_model", "Hints for a model that no engine here has used the tier for.", func(s *Stats) int64 { return s.Hints.Strange })
	count("hints_needless", "Hints for pages that were all here or on their way.", func(s *Stats) int64 { return s.Hints.Needless })
	count("hints_vain", "Hints for pages that were not here, and of which no peer had the first one.", func(s *Stats) int64 { return s.Hints.Vain })
	count("hint_pulled_pages", "Pages pulled from peers because of a hint.", func(s *Stats) int64 { return s.Hints.Pulled })
	count("warming_pages", "Pages that a cold tier wants of its peers.", func(s *Stats) int64 { return s.Warming })
	count("warmed_pages", "Pages of them that it has asked for.", func(s *Stats) int64 { return s.Warmed })
	count("untrusted", "Connections with peers that did not trust this tier, or that it did not trust.", func(s *Stats) int64 { return s.Untrusted })
	count("refused", "Connections that broke the protocol.", func(s *Stats) int64 { return s.Refused })
	count("faults", "Connections of engines whose memory went away.", func(s *Stats) int64 { return s.Faults })
	return c
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, s := range c.series {
		out <- s.desc
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	stats := c.tier.Stats()
	for _, s := range c.series {
		out <- prometheus.MustNewConstMetric(s.desc, s.kind, s.value(&stats))
	}
}
