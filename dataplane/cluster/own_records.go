package cluster

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"
)

// owned is one record of our own.
type ownRecord struct {
	node     *Node // or
	replica  *Replica
	skeleton []byte  // JSON of what is worth a write
	facts    []int64 // numbers now
	base     []int64 // numbers in the bucket
	seq      uint64  // of the last write that was tried
	acked    uint64  // of the last write that NATS has; 0: none
	revision uint64  // of that in the bucket
	dirty    bool    // something is to be written
	repeat   bool    // the write is what NATS had already: it keeps its number
	yielded  bool    // another process has our name
	written  time.Time
}

// ownRecords are those that this process announces.
type ownRecords struct {
	instance string

	mu   sync.Mutex
	seq  uint64             // of the last write; guarded by mu
	list map[key]*ownRecord // guarded by mu
}

// set replaces what is announced under k and tells whether it must be written.
func (o *ownRecords) set(k key, node *Node, replica *Replica) (bool, error) {
	skeleton, err := json.Marshal(record{Version: version, Instance: o.instance, Seq: 1, Node: skeletonOf(node), Replica: replica})
	if err != nil {
		return false, fmt.Errorf("%w: %w", ErrRecord, err)
	}
	if len(skeleton) > maxRecord/2 { // numbers and the key's name come on top
		return false, fmt.Errorf("%w: %s has %d bytes of JSON, want at most %d", ErrRecord, k.name, len(skeleton), maxRecord/2)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	r := o.list[k]
	if r == nil {
		r = &ownRecord{}
		o.list[k] = r
	}
	r.node, r.replica = node, replica
	if node != nil {
		r.facts = node.facts()
	}
	if !bytes.Equal(r.skeleton, skeleton) {
		r.skeleton, r.dirty, r.repeat = skeleton, true, false
	}
	return r.dirty, nil
}

func skeletonOf(n *Node) *Node {
	if n == nil {
		return nil
	}
	return n.skeleton()
}

// beats returns one beat for each record that NATS has.
func (o *ownRecords) beats() []beat {
	o.mu.Lock()
	defer o.mu.Unlock()
	var list []beat
	for k, r := range o.list {
		if r.acked == 0 || r.yielded {
			continue
		}
		b := beat{Kind: k.kind, Name: k.name, Instance: o.instance, Seq: r.acked}
		if !r.dirty && !slices.Equal(r.facts, r.base) {
			b.Facts = r.facts
		}
		list = append(list, b)
	}
	return list
}

// write is one record on its way into the bucket.
type write struct {
	key   key
	data  []byte
	seq   uint64
	facts []int64
}

// next returns a record that must be written and was not within gap, or how long until there is one (0: nothing is to be written).
func (o *ownRecords) next(now time.Time, gap time.Duration) (*write, time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var wait time.Duration
	for k, r := range o.list {
		if !r.dirty || r.yielded {
			continue
		}
		if rest := gap - now.Sub(r.written); rest > 0 && !r.written.IsZero() {
			if wait == 0 || rest < wait {
				wait = rest
			}
			continue
		}
		if !r.repeat {
			o.seq++
			r.seq = o.seq
		}
		r.written, r.dirty, r.repeat = now, false, false
		data, err := json.Marshal(record{Version: version, Instance: o.instance, Seq: r.seq, Node: r.node, Replica: r.replica})
		if err != nil { // set has made the same JSON before
			continue
		}
		return &write{k, data, r.seq, r.facts}, 0
	}
	return nil, wait
}

// wrote notes how a write went.
func (o *ownRecords) wrote(w *write, revision uint64, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	r := o.list[w.key]
	switch {
	case r == nil || r.seq != w.seq:
	case !ok:
		r.dirty = true
	default:
		r.acked, r.base, r.revision = w.seq, w.facts, revision
	}
}

// again has records written once more: those that which names, of those that NATS had. They keep their numbers, so that whoever
// is behind in reading does not fall further behind.
func (o *ownRecords) again(which func(k key, r *ownRecord) bool) (found bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for k, r := range o.list {
		if r.yielded || r.acked == 0 || r.dirty || !which(k, r) {
			continue
		}
		r.dirty, r.repeat, found = true, true, true
	}
	return found
}

// yield notes that another process has taken, or given back, our name. It tells whether that is news.
func (o *ownRecords) yield(k key, yielded bool) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	r := o.list[k]
	if r == nil || r.yielded == yielded || r.acked == 0 {
		return false
	}
	r.yielded, r.dirty = yielded, !yielded
	return true
}

// take empties the list and returns what NATS may have of it.
func (o *ownRecords) take() []key {
	o.mu.Lock()
	defer o.mu.Unlock()
	var taken []key
	for k, r := range o.list {
		if r.seq != 0 && !r.yielded {
			taken = append(taken, k)
		}
	}
	clear(o.list)
	return taken
}

// revision returns that of our record under k in the bucket; false: NATS has none.
func (o *ownRecords) revision(k key) (uint64, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if r := o.list[k]; r != nil && r.acked != 0 {
		return r.revision, true
	}
	return 0, false
}

// renumber forgets revisions: the bucket is another one, which counts anew.
func (o *ownRecords) renumber() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range o.list {
		r.revision = 0
	}
}

// yielded returns the names that others have taken from us.
func (o *ownRecords) yielded() []key {
	o.mu.Lock()
	defer o.mu.Unlock()
	var list []key
	for k, r := range o.list {
		if r.yielded {
			list = append(list, k)
		}
	}
	return list
}
