package store

import "github.com/prometheus/client_golang/prometheus"

// series is one metric, read from Stats.
type series struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*Stats) float64
}

// collector reads Stats at each scrape.
type collector struct {
	store  *Store
	series []series
}

// Collector returns the store's metrics, all of which begin with warmpath_kv_tier_.
func (s *Store) Collector() prometheus.Collector {
	c := &collector{store: s}
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
	gauge("pins", "Pins of KV pages by readers.", func(s *Stats) int64 { return s.Pins })
	gauge("clients", "Connections of engines.", func(s *Stats) int64 { return s.Clients })
	gauge("peers", "Connected KV tiers of other nodes.", func(s *Stats) int64 { return s.Peers })
	gauge("quarantined_pages", "Pages that an abandoned transfer may still write to.", func(s *Stats) int64 { return s.Quarantined })
	gauge("read_bytes_per_second", "Measured throughput of engines' reads; 0 is unknown.", func(s *Stats) int64 { return int64(s.ReadSpeed) })
	count("pulled_nixl_pages", "Pages pulled from peers by NIXL; the others came by TCP.", func(s *Stats) int64 { return s.PulledNIXL })
	count("asked_pages", "Pages that engines asked for.", func(s *Stats) int64 { return s.Asked })
	count("found_pages", "Leading pages of these that were present.", func(s *Stats) int64 { return s.Found })
	count("read_pages", "Pages given to engines.", func(s *Stats) int64 { return s.Read })
	count("missed_pages", "Pages that engines were to read and that were absent.", func(s *Stats) int64 { return s.Missed })
	count("stored_pages", "Pages stored, by engines and from peers.", func(s *Stats) int64 { return s.Stored })
	count("evicted_pages", "Pages evicted.", func(s *Stats) int64 { return s.Evicted })
	count("clears", "Clears of a model, by engines of this node or of peers.", func(s *Stats) int64 { return s.Clears })
	count("full_pages", "Pages without room, as all others were pinned.", func(s *Stats) int64 { return s.Full })
	count("remote_asked_pages", "Pages in questions to peers.", func(s *Stats) int64 { return s.RemoteAsked })
	count("remote_found_pages", "Pages of these that a peer had.", func(s *Stats) int64 { return s.RemoteFound })
	count("pulled_pages", "Pages pulled from peers.", func(s *Stats) int64 { return s.Pulled })
	count("pulled_bytes", "Bytes pulled from peers.", func(s *Stats) int64 { return s.PulledBytes })
	count("too_slow", "Questions not asked, as engines compute pages faster than the link brings them.", func(s *Stats) int64 { return s.TooSlow })
	count("pull_failures", "Pulls that failed.", func(s *Stats) int64 { return s.PullFailures })
	count("served_pages", "Pages given to peers.", func(s *Stats) int64 { return s.Served })
	count("hinted_pages", "Pages in hints.", func(s *Stats) int64 { return s.Hinted })
	count("hints", "Pull hints of routers.", func(s *Stats) int64 { return s.Hints.Received })
	count("hints_refused", "Pull hints that cannot be read.", func(s *Stats) int64 { return s.Hints.Refused })
	count("hints_duplicate", "Pull hints for the pages of another hint of the last two seconds.", func(s *Stats) int64 { return s.Hints.Duplicate })
	count("hints_dropped", "Pull hints dropped, as too many were at work.", func(s *Stats) int64 { return s.Hints.Dropped })
	count("hints_unknown_model", "Pull hints for a model that no engine of this node has used the tier for.", func(s *Stats) int64 { return s.Hints.UnknownModel })
	count("hints_needless", "Pull hints for pages that were all present or being pulled.", func(s *Stats) int64 { return s.Hints.Needless })
	count("hints_vain", "Pull hints for absent pages of which no peer had the first one.", func(s *Stats) int64 { return s.Hints.Vain })
	count("hint_pulled_pages", "Pages pulled for hints.", func(s *Stats) int64 { return s.Hints.Pulled })
	count("warming_pages", "Pages of peers wanted by new namespaces.", func(s *Stats) int64 { return s.Warming })
	count("warmed_pages", "Pages of these that were asked for.", func(s *Stats) int64 { return s.Warmed })
	count("untrusted", "Connections with peers that one side did not trust.", func(s *Stats) int64 { return s.Untrusted })
	count("refused", "Connections that broke the protocol.", func(s *Stats) int64 { return s.Refused })
	count("faults", "Connections of engines whose memory differed from the announcement.", func(s *Stats) int64 { return s.Faults })
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
	stats := c.store.Stats()
	for _, s := range c.series {
		out <- prometheus.MustNewConstMetric(s.desc, s.kind, s.value(&stats))
	}
}
