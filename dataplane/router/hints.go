package router

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/warmpath/warmpath/dataplane/kvtier/hint"
	"github.com/warmpath/warmpath/dataplane/routing"
)

// What routers tell the sidecars of the nodes that they choose.
const (
	HintsAuto = "auto" // which pages to pull from another node's tier, where the choice reckoned with that; nothing without a cluster
	HintsOff  = "off"  // nothing
)

func checkHints(c *Config) error {
	if c.Hints != HintsAuto && c.Hints != HintsOff {
		return fmt.Errorf("cannot use --kv-hints %q: want %s or %s", c.Hints, HintsAuto, HintsOff)
	}
	return nil
}

const (
	// queuedHints wait to be sent at most: a router that sends 1,000 requests a second has 60 ms to send them, which takes some µs each.
	queuedHints = 64
	// keptHint bounds the memory that stays with each of them: a prompt of 65,536 tokens. Longer ones cost an allocation.
	keptHint = 256<<10 + 1024
)

// publisher is the part of a cluster.Cluster that hints need.
type publisher interface {
	// Publish sends to all who listen, does not wait, and keeps nothing of data.
	Publish(subject string, data []byte) error
}

// hinter sends hints: a request copies what its node should pull into memory that waits for that, and goes on; run sends it.
type hinter struct {
	bus  publisher
	node func(place uint32) string // name of the node there; "" where there is none any more

	free chan *queuedHint
	full chan *queuedHint // has room for all that there are

	sent, tokens                 atomic.Uint64
	overflow, gone, failed, none atomic.Uint64 // not sent: too many at once, no such node, no NATS, nothing of use in it
}

// queuedHint is one hint on its way.
type queuedHint struct {
	place, from uint32
	tokens      int
	data        []byte
}

var _ routing.PullHints = (*hinter)(nil)

func newHinter(bus publisher, node func(place uint32) string) *hinter {
	h := &hinter{bus: bus, node: node, free: make(chan *queuedHint, queuedHints), full: make(chan *queuedHint, queuedHints)}
	for range queuedHints {
		h.free <- &queuedHint{}
	}
	return h
}

// Hint implements route.Hints.
func (h *hinter) Hint(p routing.PullHint) {
	var q *queuedHint
	select {
	case q = <-h.free:
	default:
		h.overflow.Add(1)
		return
	}
	if p.LoRA == "" { // pages of adapters have names that no other engine knows
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

// run sends hints until ctx ends.
func (h *hinter) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case q := <-h.full:
			h.send(q)
			if cap(q.data) > keptHint {
				q.data = nil
			}
			h.free <- q
		}
	}
}

func (h *hinter) send(q *queuedHint) {
	node := h.node(q.place)
	if node == "" {
		h.gone.Add(1)
		return
	}
	q.data = hint.AppendFrom(q.data, h.node(q.from))
	if h.bus.Publish(hint.Subject(node), q.data) != nil {
		h.failed.Add(1) // NATS is away: the engine asks for itself
		return
	}
	h.sent.Add(1)
	h.tokens.Add(uint64(q.tokens))
}

// name returns the name of the node at a place, "" where there is none.
func (p *places) name(place uint32) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, n := range p.number {
		if n == place {
			return name
		}
	}
	return ""
}

// newHints lets router tell nodes what to pull; nil: nobody is told.
func (d *Router) newHints(router *routing.Router) *hinter {
	if d.cfg.Cluster == nil || d.cfg.Hints == HintsOff {
		return nil
	}
	h := newHinter(d.cfg.Cluster, d.places.name)
	router.Pulls = h
	return h
}

var (
	hintsSent    = prometheus.NewDesc("warmpath_kv_hints_sent_total", "Hints sent to nodes: which pages of a request's prompt to pull from another node's KV tier.", nil, nil)
	hintsTokens  = prometheus.NewDesc("warmpath_kv_hinted_tokens_total", "Prompt tokens in these hints, without those that the worker has itself.", nil, nil)
	hintsDropped = prometheus.NewDesc("warmpath_kv_hints_dropped_total",
		"Hints not sent: overflow (too many at once), gone (the node is no more), failed (NATS is out of reach) or empty (no whole page in them, or a LoRA adapter's).",
		[]string{"why"}, nil)
)

// hintCollector shows what a hinter has done.
type hintCollector struct{ *hinter }

// Describe implements prometheus.Collector.
func (hintCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{hintsSent, hintsTokens, hintsDropped} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c hintCollector) Collect(ch chan<- prometheus.Metric) {
	count := func(d *prometheus.Desc, v *atomic.Uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v.Load()), labels...)
	}
	count(hintsSent, &c.sent)
	count(hintsTokens, &c.tokens)
	count(hintsDropped, &c.overflow, "overflow")
	count(hintsDropped, &c.gone, "gone")
	count(hintsDropped, &c.failed, "failed")
	count(hintsDropped, &c.none, "empty")
}
