package directory

import (
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// counts of an Index.
type counts struct {
	messages, bytes, malformed, gaps       atomic.Uint64
	resyncs, resyncPages, caughtUp, failed atomic.Uint64 // failed: questions without an answer
	// Nodes; pages without room; kinds and nodes without room.
	forgotten, leftOut, unkept                 atomic.Uint64
	lookups, found, tokens, hashed, remembered atomic.Uint64
}

// Status is the state of an index. Counters only grow.
type Status struct {
	Nodes []NodeStatus `json:"nodes"` // by name
	Pages int          `json:"pages"` // held by some node
	Bytes int          `json:"bytes"` // of the table of pages and of remembered hashes

	Messages   uint64 `json:"messages"`   // of announcers
	Received   uint64 `json:"received"`   // bytes of messages and answers
	Malformed  uint64 `json:"malformed"`  // messages that could not be read
	Gaps       uint64 `json:"lost"`       // gaps in announced changes
	CaughtUp   uint64 `json:"caught_up"`  // answers with missing changes
	Resyncs    uint64 `json:"resyncs"`    // contents of a node asked for
	Learnt     uint64 `json:"learnt"`     // pages in these contents
	Failed     uint64 `json:"failed"`     // questions without an answer
	Forgotten  uint64 `json:"forgotten"`  // nodes dropped after silence
	LeftOut    uint64 `json:"left_out"`   // pages without room
	Unkept     uint64 `json:"unkept"`     // kinds of pages, and nodes, without room
	Lookups    uint64 `json:"lookups"`    // prompts looked up
	Found      uint64 `json:"found"`      // of these, prompts that some tier held
	Tokens     uint64 `json:"tokens"`     // of these, tokens of the longest match each
	Hashed     uint64 `json:"hashed"`     // pages of them that were hashed
	Remembered uint64 `json:"remembered"` // pages of them whose hashes were remembered
}

// NodeStatus is the state of one node.
type NodeStatus struct {
	Name    string  `json:"name"`
	Pages   int     `json:"pages"`
	Kinds   int     `json:"kinds"`   // of pages
	Known   bool    `json:"known"`   // all announced changes are applied
	Listed  bool    `json:"listed"`  // the cluster lists the node
	Silence float64 `json:"silence"` // seconds since the last report
}

// Status returns the present state.
func (x *Index) Status() Status {
	now := time.Now()
	n := &x.counts
	s := Status{
		Nodes:    []NodeStatus{},
		Messages: n.messages.Load(), Received: n.bytes.Load(), Malformed: n.malformed.Load(), Gaps: n.gaps.Load(), CaughtUp: n.caughtUp.Load(),
		Resyncs: n.resyncs.Load(), Learnt: n.resyncPages.Load(), Failed: n.failed.Load(), Forgotten: n.forgotten.Load(), LeftOut: n.leftOut.Load(),
		Unkept: n.unkept.Load(), Lookups: n.lookups.Load(), Found: n.found.Load(), Tokens: n.tokens.Load(), Hashed: n.hashed.Load(),
		Remembered: n.remembered.Load(),
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	c := &x.contents
	s.Pages, s.Bytes = c.table.used-c.table.unheld, c.table.bytes()+c.caches.bytes()
	for _, n := range c.nodes {
		one := NodeStatus{
			Name: n.name, Kinds: len(n.kinds), Known: n.known && !n.learning && n.applied >= n.announced, Listed: c.numbers[n.name] != 0,
			Silence: now.Sub(n.heard).Seconds(),
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

// Collector returns the index's metrics, all of which begin with warmpath_shelf_.
func (x *Index) Collector() prometheus.Collector { return collector{x} }

type collector struct{ index *Index }

// Describe implements prometheus.Collector. It names none: Collect does.
func (collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) {
	s := c.index.Status()
	gauge := func(d *prometheus.Desc, v int, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), labels...)
	}
	count := func(d *prometheus.Desc, v uint64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	pages := prometheus.NewDesc("warmpath_shelf_node_pages", "KV pages of a node's tier, as announced.", []string{"node"}, nil)
	known := prometheus.NewDesc("warmpath_shelf_node_known", "1 when all announcements of the node's tier are applied.", []string{"node"}, nil)
	for i := range s.Nodes {
		gauge(pages, s.Nodes[i].Pages, s.Nodes[i].Name)
		one := 0
		if s.Nodes[i].Known {
			one = 1
		}
		gauge(known, one, s.Nodes[i].Name)
	}
	gauge(prometheus.NewDesc("warmpath_shelf_pages", "KV pages that some node's tier holds.", nil, nil), s.Pages)
	gauge(prometheus.NewDesc("warmpath_shelf_bytes", "Memory of the tier directory.", nil, nil), s.Bytes)
	count(prometheus.NewDesc("warmpath_shelf_received_bytes_total", "Bytes of announcements of KV tiers and of answers.", nil, nil), s.Received)
	events := prometheus.NewDesc("warmpath_shelf_events_total", "Announcements of KV tiers, and their failures.", []string{"event"}, nil)
	for event, n := range map[string]uint64{
		"message": s.Messages, "malformed": s.Malformed, "lost": s.Gaps, "caught_up": s.CaughtUp, "resync": s.Resyncs, "failed": s.Failed,
		"forgotten": s.Forgotten, "unkept": s.Unkept,
	} {
		count(events, n, event)
	}
	count(prometheus.NewDesc("warmpath_shelf_left_out_pages_total", "Announced KV pages without room.", nil, nil), s.LeftOut)
	lookups := prometheus.NewDesc("warmpath_shelf_lookups_total", "Prompts looked up in the tier directory.", []string{"result"}, nil)
	count(lookups, s.Found, "found")
	count(lookups, s.Lookups-min(s.Found, s.Lookups), "nothing")
	count(prometheus.NewDesc("warmpath_shelf_found_tokens_total", "Tokens of looked-up prompts that one KV tier held at most.", nil, nil), s.Tokens)
	hashed := prometheus.NewDesc("warmpath_shelf_hashed_pages_total", "Pages of looked-up prompts, by the origin of their hash.", []string{"how"}, nil)
	count(hashed, s.Hashed, "hashed")
	count(hashed, s.Remembered, "remembered")
}
