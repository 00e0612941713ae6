package directory

import (
	"context"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/warmpath/warmpath/dataplane/kvtier/hint"
	"github.com/warmpath/warmpath/dataplane/routing"
)

const (
	// maxQueuedHints bounds the hints that wait to be sent: at 1,000 requests a second there are
	// 60 ms to send them, at some µs each.
	maxQueuedHints = 64
	// maxHintBuffer bounds the memory that each of them keeps: a prompt of 65,536 tokens. A longer
	// one costs an allocation.
	maxHintBuffer = 256<<10 + 1024
)

// Publisher is the part of a cluster.Cluster that hints need.
type Publisher interface {
	// Publish sends to all subscribers. It does not wait for them, and keeps nothing of data.
	Publish(subject string, data []byte) error
}

// HintSender sends pull hints to sidecars. A request copies its hint into a free buffer and goes
// on; Run publishes it.
type HintSender struct {
	bus  Publisher
	node func(number uint32) string // name of a node; "" for one that is gone

	free chan *hintMessage
	full chan *hintMessage // has room for all of them

	sent, tokens atomic.Uint64
	// Not sent: queue full, unknown node, no NATS, no whole page.
	overflow, gone, failed, none atomic.Uint64
}

// hintMessage is one hint in the queue.
type hintMessage struct {
	place, from uint32
	tokens      int
	data        []byte
}

var _ routing.PullHints = (*HintSender)(nil)

// NewHintSender returns a sender of hints over bus; node returns the name of a numbered node.
func NewHintSender(bus Publisher, node func(number uint32) string) *HintSender {
	h := &HintSender{bus: bus, node: node, free: make(chan *hintMessage, maxQueuedHints), full: make(chan *hintMessage, maxQueuedHints)}
	for range maxQueuedHints {
		h.free <- &hintMessage{}
	}
	return h
}

// Hint implements routing.PullHints.
func (h *HintSender) Hint(p routing.PullHint) {
	var q *hintMessage
	select {
	case q = <-h.free:
	default:
		h.overflow.Add(1)
		return
	}
	if p.LoRA == "" { // no other engine knows the names of an adapter's pages
		pages := hint.Pages{PageSize: p.PageSize, Have: p.Have, Model: p.Model, Salt: p.Salt, Tokens: p.Tokens}
		q.data, q.tokens = hint.Append(q.data[:0], &pages)
	} else {
		q.tokens = 0
	}
	if q.tokens == 0 {
		h.none.Add(1)
		h.free <- q
		return
	}
	q.place, q.from = p.Place, p.From
	q.tokens -= p.Have
	h.full <- q
}

// Run sends hints until ctx ends.
func (h *HintSender) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case q := <-h.full:
			h.send(q)
			if cap(q.data) > maxHintBuffer {
				q.data = nil
			}
			h.free <- q
		}
	}
}

func (h *HintSender) send(q *hintMessage) {
	node := h.node(q.place)
	if node == "" {
		h.gone.Add(1)
		return
	}
	q.data = hint.AppendFrom(q.data, h.node(q.from))
	if h.bus.Publish(hint.Subject(node), q.data) != nil {
		h.failed.Add(1) // without NATS the engine asks for itself
		return
	}
	h.sent.Add(1)
	h.tokens.Add(uint64(q.tokens))
}

// Collector returns the metrics of the sender.
func (h *HintSender) Collector() prometheus.Collector { return hintCollector{h} }

// hintCollector shows the counts of a HintSender.
type hintCollector struct{ *HintSender }

// Describe implements prometheus.Collector. It names none: Collect does.
func (hintCollector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c hintCollector) Collect(out chan<- prometheus.Metric) {
	count := func(d *prometheus.Desc, n *atomic.Uint64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n.Load()), labels...)
	}
	count(prometheus.NewDesc("warmpath_kv_hints_sent_total", "Hints sent to nodes: which pages of a request's prompt to pull from another node's KV tier.", nil, nil), &c.sent)
	count(prometheus.NewDesc("warmpath_kv_hinted_tokens_total", "Prompt tokens in these hints, without those that the worker has itself.", nil, nil), &c.tokens)
	dropped := prometheus.NewDesc("warmpath_kv_hints_dropped_total",
		"Hints not sent: overflow (too many at once), gone (the node is no more), failed (NATS is out of reach) or empty (no whole page in them, or a LoRA adapter's).",
		[]string{"why"}, nil)
	count(dropped, &c.overflow, "overflow")
	count(dropped, &c.gone, "gone")
	count(dropped, &c.failed, "failed")
	count(dropped, &c.none, "empty")
}
