package cluster

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"
)

// ownRecord is one record of our own.
type ownRecord struct {
	node     *Node // or
	router   *Router
	skeleton []byte  // JSON of the node without facts
	facts    []int64 // numbers now
	base     []int64 // numbers in the bucket
	seq      uint64  // of the last write that was tried
	acked    uint64  // of the last write that NATS has; 0: none
	revision uint64  // of that in the bucket
	rival    uint64  // revision of another process's record that came since the last write began
	dirty    bool    // something is to be written
	sameSeq  bool    // NATS had this record already: it keeps its number
	yielded  bool    // another process has our name
	written  time.Time
}

// ownRecords are the records of this process.
type ownRecords struct {
	instance string

	mu   sync.Mutex
	seq  uint64             // of the last write; guarded by mu
	list map[key]*ownRecord // guarded by mu
}

// set replaces the record under k and reports whether it must be written.
func (o *ownRecords) set(k key, node *Node, replica *Router) (bool, error) {
	skeleton, err := json.Marshal(record{Version: version, Instance: o.instance, Seq: 1, Node: skeletonOf(node), Router: replica})
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
	r.node, r.router = node, replica
	if node != nil {
		r.facts = node.facts()
	}
	if !bytes.Equal(r.skeleton, skeleton) {
		r.skeleton, r.dirty, r.sameSeq = skeleton, true, false
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

// next returns a record to write that was not written within gap, or the time until there is one
// (0: there is none).
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
		if !r.sameSeq {
			o.seq++
			r.seq = o.seq
		}
		r.written, r.dirty, r.sameSeq, r.rival = now, false, false, 0
		data, err := json.Marshal(record{Version: version, Instance: o.instance, Seq: r.seq, Node: r.node, Router: r.router})
		if err != nil { // set has made the same JSON before
			continue
		}
		return &write{k, data, r.seq, r.facts}, 0
	}
	return nil, wait
}

// wrote notes how a write went. lost: another process took the name later, which was known before
// NATS's answer.
func (o *ownRecords) wrote(w *write, revision uint64, ok bool) (lost bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	r := o.list[w.key]
	switch {
	case r == nil || r.seq != w.seq:
	case !ok:
		r.dirty = true
	default:
		r.acked, r.base, r.revision = w.seq, w.facts, revision
		r.yielded = r.yielded && r.rival >= revision // else the other yields
		return r.lose()
	}
	return false
}

// contest notes another process's record under k, and reports whether the name is lost to it.
func (o *ownRecords) contest(k key, revision uint64) (lost bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	r := o.list[k]
	if r == nil {
		return false
	}
	r.rival = revision
	return r.lose()
}

// lose yields the name to a process that took it later, and reports whether that is news.
func (r *ownRecord) lose() bool {
	if r.acked == 0 || r.yielded || r.rival < r.revision {
		return false
	}
	r.yielded, r.dirty = true, false
	return true
}

// rewrite has the records that NATS had and that which selects written once more. They keep their
// numbers, so that readers that are behind do not fall further behind.
func (o *ownRecords) rewrite(which func(k key, r *ownRecord) bool) (found bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for k, r := range o.list {
		if r.yielded || r.acked == 0 || r.dirty || !which(k, r) {
			continue
		}
		r.dirty, r.sameSeq, found = true, true, true
	}
	return found
}

// reclaim has the record under k written again: the process that took the name is gone.
func (o *ownRecords) reclaim(k key) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if r := o.list[k]; r != nil && r.yielded {
		r.yielded, r.dirty = false, true
	}
}

// clear empties the list and returns the keys that NATS may have.
func (o *ownRecords) clear() []key {
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

// renumber forgets revisions: the bucket is a new one, which counts from 1.
func (o *ownRecords) renumber() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range o.list {
		r.revision, r.rival = 0, 0
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
