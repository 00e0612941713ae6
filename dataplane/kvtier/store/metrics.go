package store

import "github.com/prometheus/client_golang/prometheus"

// collector reads Stats at each scrape.
type collector struct{ store *Store }

// Collector returns the store's metrics, all of which begin with warmpath_kv_tier_.
func (s *Store) Collector() prometheus.Collector { return collector{s} }

// Describe implements prometheus.Collector. It names none: Collect does.
func (collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) {
	s := c.store.Stats()
	send := func(kind prometheus.ValueType, name, help string, v int64) {
		out <- prometheus.MustNewConstMetric(prometheus.NewDesc("warmpath_kv_tier_"+name, help, nil, nil), kind, float64(v))
	}
	gauge := func(name, help string, v int64) { send(prometheus.GaugeValue, name, help, v) }
	count := func(name, help string, v int64) { send(prometheus.CounterValue, name+"_total", help, v) }
	gauge("bytes", "Bound of the KV tier.", s.Bytes)
	gauge("used_bytes", "Bytes of KV pages held.", s.Used)
	gauge("pages", "KV pages held.", s.Pages)
	gauge("pins", "Pins of KV pages by readers.", s.Pins)
	gauge("clients", "Connections of engines.", s.Clients)
	gauge("peers", "Connected KV tiers of other nodes.", s.Peers)
	gauge("quarantined_pages", "Pages that an abandoned transfer may still write to.", s.Quarantined)
	gauge("read_bytes_per_second", "Measured throughput of engines' reads; 0 is unknown.", int64(s.ReadSpeed))
	count("pulled_nixl_pages", "Pages pulled from peers by NIXL; the others came by TCP.", s.PulledNIXL)
	count("asked_pages", "Pages that engines asked for.", s.Asked)
	count("found_pages", "Leading pages of these that were present.", s.Found)
	count("read_pages", "Pages given to engines.", s.Read)
	count("missed_pages", "Pages that engines were to read and that were absent.", s.Missed)
	count("stored_pages", "Pages stored, by engines and from peers.", s.Stored)
	count("evicted_pages", "Pages evicted.", s.Evicted)
	count("clears", "Clears of a model, by engines of this node or of peers.", s.Clears)
	count("full_pages", "Pages without room, as all others were pinned.", s.Full)
	count("remote_asked_pages", "Pages in questions to peers.", s.RemoteAsked)
	count("remote_found_pages", "Pages of these that a peer had.", s.RemoteFound)
	count("pulled_pages", "Pages pulled from peers.", s.Pulled)
	count("pulled_bytes", "Bytes pulled from peers.", s.PulledBytes)
	count("too_slow", "Questions not asked, as engines compute pages faster than the link brings them.", s.TooSlow)
	count("pull_failures", "Pulls that failed.", s.PullFailures)
	count("served_pages", "Pages given to peers.", s.Served)
	count("hinted_pages", "Pages in hints.", s.Hinted)
	count("hints", "Pull hints of routers.", s.Hints.Received)
	count("hints_refused", "Pull hints that cannot be read.", s.Hints.Refused)
	count("hints_duplicate", "Pull hints for the pages of another hint of the last two seconds.", s.Hints.Duplicate)
	count("hints_dropped", "Pull hints dropped, as too many were at work.", s.Hints.Dropped)
	count("hints_unknown_model", "Pull hints for a model that no engine of this node has used the tier for.", s.Hints.UnknownModel)
	count("hints_needless", "Pull hints for pages that were all present or being pulled.", s.Hints.Needless)
	count("hints_vain", "Pull hints for absent pages of which no peer had the first one.", s.Hints.Vain)
	count("hint_pulled_pages", "Pages pulled for hints.", s.Hints.Pulled)
	count("untrusted", "Connections with peers that one side did not trust.", s.Untrusted)
	count("refused", "Connections that broke the protocol.", s.Refused)
	count("faults", "Connections of engines whose memory differed from the announcement.", s.Faults)
}
