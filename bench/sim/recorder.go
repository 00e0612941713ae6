package sim

import "github.com/warmpath/warmpath/zmq/kvevent"

// recorder collects the changes of one cache until they are published, and joins them as SGLang
// does: a store that continues the previous one adds hashes to its event, and so does a removal
// after a removal.
type recorder struct {
	off    bool // The worker publishes no events.
	page   int
	events []kvevent.Event
}

// stored records that n's pages were inserted.
func (r *recorder) stored(n *node) {
	if r.off {
		return
	}
	seed := n.domain.namespace()
	parent, linked := uint64(0), !n.parent.isRoot()
	if linked {
		parent = namespaced(n.parent.digests[len(n.parent.digests)-1].hash(), seed)
	}
	if e := r.tail(kvevent.Stored); e != nil && linked && continues(e, parent, n.domain) {
		e.Hashes = appendHashes(e.Hashes, n, seed)
		e.Tokens = append(e.Tokens, n.tokens...)
		return
	}
	r.events = append(r.events, kvevent.Event{
		Kind: kvevent.Stored, Medium: kvevent.MediumGPU,
		HasParent: linked, Parent: parent,
		Hashes:    appendHashes(make([]uint64, 0, n.pages()), n, seed),
		Tokens:    append([]uint32(nil), n.tokens...),
		BlockSize: r.page,
		CacheSalt: optional(n.domain.salt),
		LoRAName:  optional(n.domain.lora),
	})
}

// removed records that n's pages were evicted.
func (r *recorder) removed(n *node) {
	if r.off {
		return
	}
	seed := n.domain.namespace()
	if e := r.tail(kvevent.Removed); e != nil {
		e.Hashes = appendHashes(e.Hashes, n, seed)
		return
	}
	r.events = append(r.events, kvevent.Event{
		Kind: kvevent.Removed, Medium: kvevent.MediumGPU,
		Hashes: appendHashes(nil, n, seed),
	})
}

// cleared records that the cache is empty.
func (r *recorder) cleared() {
	if r.off {
		return
	}
	r.events = append(r.events, kvevent.Event{Kind: kvevent.Cleared})
}

// take returns the recorded events and removes them.
func (r *recorder) take() []kvevent.Event {
	events := r.events
	r.events = nil
	return events
}

// tail is the last event if it is of kind k.
func (r *recorder) tail(k kvevent.Kind) *kvevent.Event {
	if len(r.events) == 0 {
		return nil
	}
	e := &r.events[len(r.events)-1]
	if e.Kind != k {
		return nil
	}
	return e
}

// continues reports whether a store after parent in domain s can join e.
func continues(e *kvevent.Event, parent uint64, s domain) bool {
	return e.Hashes[len(e.Hashes)-1] == parent &&
		string(e.CacheSalt) == s.salt && string(e.LoRAName) == s.lora
}

// appendHashes appends the published hashes of n's pages, first page first.
func appendHashes(dst []uint64, n *node, seed *digest) []uint64 {
	for i := range n.digests {
		dst = append(dst, namespaced(n.digests[i].hash(), seed))
	}
	return dst
}

func optional(s string) []byte {
	if s == "" {
		return nil
	}
	return []byte(s)
}
