package directory

import (
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Status is what an index knows and has done. Counters only grow.
type Status struct {
	Nodes []NodeStatus `json:"nodes"` // by name
	Pages int          `json:"pages"` // that some node holds
	Bytes int          `json:"bytes"` // of the table of pages, and of remembered hashes

	Messages  uint64 `json:"messages"`   // of announcers
	Received  uint64 `json:"received"`   // bytes of messages and answers
	Malformed uint64 `json:"malformed"`  // messages that could not be read
	Lost      uint64 `json:"lost"`       // gaps in them
	CaughtUp  uint64 `json:"caught_up"`  // answers with what was missed
	Resyncs   uint64 `json:"resyncs"`    // times that all a node holds was asked for
	Learnt    uint64 `json:"learnt"`     // pages in answers to that
	Failed    uint64 `json:"failed"`     // questions that were not answered
	Forgotten uint64 `json:"forgotten"`  // nodes that fell silent
	LeftOut   uint64 `json:"left_out"`   // pages that found no room
	Unkept    uint64 `json:"unkept"`     // kinds of pages, and nodes, that found no room
	Lookups   uint64 `json:"lookups"`    // prompts that were looked up
	Found     uint64 `json:"found"`      // prompts of them that some tier knew
	Tokens    uint64 `json:"tokens"`     // of these, the longest that one tier knew of each
	Hashed    uint64 `json:"hashed"`     // pages of them that were hashed
	Recalled  uint64 `json:"remembered"` // pages whose hashes were remembered
}

// NodeStatus is what is known of one node.
type NodeStatus struct {
	Name    string  `json:"name"`
	Pages   int     `json:"pages"`  // known of it
	Kinds   int     `json:"kinds"`  // of pages
	Known   bool    `json:"known"`  // all that it has told of is known
	Listed  bool    `json:"listed"` // the cluster lists it
	Silence float64 `json:"silence"`
}

// Status returns the present state.
func (x *Index) Status() Status {
	now := time.Now()
	c := &x.count
	s := Status{
		Nodes:    []NodeStatus{},
		Messages: c.messages.Load(), Received: c.bytes.Load(), Malformed: c.malformed.Load(), Lost: c.lost.Load(), CaughtUp: c.caughtUp.Load(),
		Resyncs: c.resyncs.Load(), Learnt: c.resyncPages.Load(), Failed: c.failed.Load(), Forgotten: c.forgotten.Load(), LeftOut: c.leftOut.Load(),
		Unkept: c.unkept.Load(), Lookups: c.lookups.Load(), Found: c.hits.Load(), Tokens: c.tokens.Load(), Hashed: c.hashed.Load(), Recalled: c.kept.Load(),
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	s.Pages, s.Bytes = x.table.used-x.table.dead, x.table.bytes()
	for _, m := range x.memos {
		s.Bytes += m.bytes()
	}
	for _, n := range x.nodes {
		one := NodeStatus{
			Name: n.name, Kinds: len(n.kinds), Known: n.learnt && !n.learning && n.at >= n.heard, Listed: x.places[n.name] != 0,
			Silence: now.Sub(n.last).Seconds(),
		}
		for _, h := range n.kinds {
			if h != nil {
				one.Pages += h.pages
			}
		}
		s.Nodes = append(s.Nodes, one)
	}
	slices.SortFunc(s.Nodes, func(a, b NodeStatus) int { return strings.Compare(a.Name, b.Name) })
	return s
}

var (
	nodePages   = prometheus.NewDesc("warmpath_shelf_node_pages", "KV pages that a node's tier is known to hold.", []string{"node"}, nil)
	nodeKnown   = prometheus.NewDesc("warmpath_shelf_node_known", "1 when all is known that the node's tier has announced.", []string{"node"}, nil)
	indexPages  = prometheus.NewDesc("warmpath_shelf_pages", "KV pages that some node's tier is known to hold.", nil, nil)
	indexBytes  = prometheus.NewDesc("warmpath_shelf_bytes", "Memory for what KV tiers hold.", nil, nil)
	received    = prometheus.NewDesc("warmpath_shelf_received_bytes_total", "Bytes of announcements of KV tiers and of answers.", nil, nil)
	events      = prometheus.NewDesc("warmpath_shelf_events_total", "Announcements of KV tiers, and what went wrong with them.", []string{"event"}, nil)
	leftOut     = prometheus.NewDesc("warmpath_shelf_left_out_pages_total", "Announced KV pages that found no room.", nil, nil)
	lookups     = prometheus.NewDesc("warmpath_shelf_lookups_total", "Prompts looked up in what KV tiers hold.", []string{"result"}, nil)
	foundTokens = prometheus.NewDesc("warmpath_shelf_found_tokens_total", "Of prompts that were looked up, the tokens that one KV tier held at most.", nil, nil)
	hashedPages = prometheus.NewDesc("warmpath_shelf_hashed_pages_total", "Pages of prompts that were looked up, by how their hash was found.", []string{"how"}, nil)
)

// Collector returns the index's metrics, all of which begin with warmpath_shelf_.
func (x *Index) Collector() prometheus.Collector { return indexCollector{x} }

type indexCollector struct{ index *Index }

// Describe implements prometheus.Collector.
func (indexCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{nodePages, nodeKnown, indexPages, indexBytes, received, events, leftOut, lookups, foundTokens, hashedPages} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c indexCollector) Collect(out chan<- prometheus.Metric) {
	s := c.index.Status()
	gauge := func(d *prometheus.Desc, v int, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), labels...)
	}
	count := func(d *prometheus.Desc, v uint64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	for i := range s.Nodes {
		gauge(nodePages, s.Nodes[i].Pages, s.Nodes[i].Name)
		gauge(nodeKnown, int(flag(s.Nodes[i].Known)), s.Nodes[i].Name)
	}
	gauge(indexPages, s.Pages)
	gauge(indexBytes, s.Bytes)
	count(received, s.Received)
	for event, n := range map[string]uint64{
		"message": s.Messages, "malformed": s.Malformed, "lost": s.Lost, "caught_up": s.CaughtUp, "resync": s.Resyncs, "failed": s.Failed,
		"forgotten": s.Forgotten, "unkept": s.Unkept,
	} {
		count(events, n, event)
	}
	count(leftOut, s.LeftOut)
	count(lookups, s.Found, "found")
	count(lookups, s.Lookups-min(s.Found, s.Lookups), "nothing")
	count(foundTokens, s.Tokens)
	count(hashedPages, s.Hashed, "hashed")
	count(hashedPages, s.Recalled, "remembered")
}

var (
	announcedPages = prometheus.NewDesc("warmpath_kv_tier_announced_pages_total", "KV pages that routers were told of.", []string{"change"}, nil)
	announcedBytes = prometheus.NewDesc("warmpath_kv_tier_announced_bytes_total", "Bytes of these messages.", nil, nil)
	announcements  = prometheus.NewDesc("warmpath_kv_tier_announcements_total", "Messages to routers of what the KV tier holds, and answers.", []string{"kind"}, nil)
	unannounced    = prometheus.NewDesc("warmpath_kv_tier_unannounced_pages_total", "KV pages of too many kinds to tell of.", nil, nil)
)

// Collector returns the announcer's metrics, all of which begin with warmpath_kv_tier_.
func (a *Announcer) Collector() prometheus.Collector { return announcerCollector{a} }

type announcerCollector struct{ announcer *Announcer }

// Describe implements prometheus.Collector.
func (announcerCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{announcedPages, announcedBytes, announcements, unannounced} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c announcerCollector) Collect(out chan<- prometheus.Metric) {
	n := &c.announcer.count
	count := func(d *prometheus.Desc, v uint64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	count(announcedPages, n.pages.Load(), "stored")
	count(announcedPages, n.gone.Load(), "gone")
	count(announcedBytes, n.bytes.Load())
	for kind, v := range map[string]uint64{
		"message": n.messages.Load(), "failed": n.failed.Load(), "contents": n.contents.Load(), "missed": n.missed.Load(), "lost": n.lost.Load(),
		"malformed": n.malformed.Load(), "forgotten": n.forgotten.Load(),
	} {
		count(announcements, v, kind)
	}
	count(unannounced, n.leftOut.Load())
}
