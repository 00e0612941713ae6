package approx

import (
	"errors"
	"fmt"
	"unsafe"
)

// Check recounts a tree and returns the first inconsistency.
func (t *Tree) Check() error {
	t.mu.RLock()
	defer t.mu.RUnlock()
	s := &t.nodes
	bytes := int64(len(s.buckets))*int64(unsafe.Sizeof(s.buckets[0])) + int64(len(t.caches))*cacheBytes
	var nodes, holdings int64
	units := map[*cache]int64{}
	for _, n := range s.buckets {
		for ; n != nil; n = n.chained {
			nodes++
			bytes += n.byteSize() + int64(len(n.holders))*holdingBytes
			holdings += int64(len(n.holders))
			if err := s.checkNode(n, units); err != nil {
				return err
			}
		}
	}
	if bytes != s.bytes || nodes != s.nodes || holdings != s.holdings {
		return fmt.Errorf("recount is %d bytes, %d nodes, %d holdings; counted are %d, %d, %d",
			bytes, nodes, holdings, s.bytes, s.nodes, s.holdings)
	}
	if err := s.free.check(); err != nil {
		return err
	}
	if bytes > t.liveBytes || bytes+s.free.bytes > t.maxBytes {
		return fmt.Errorf("%d bytes and %d in the free list exceed the bound of %d",
			bytes, s.free.bytes, t.maxBytes)
	}
	for c, n := range units {
		if c.units != n {
			return fmt.Errorf("worker %d holds %d units, has counted %d", c.worker, n, c.units)
		}
	}
	for _, c := range t.caches {
		if c != nil {
			if _, err := checkList(&c.list); err != nil {
				return err
			}
		}
	}
	if n, err := checkList(&s.recent); err != nil || n != holdings {
		return fmt.Errorf("the list of all has %d holdings of %d: %w", n, holdings, err)
	}
	return nil
}

func (s *nodeStore) checkNode(n *node, units map[*cache]int64) error {
	if len(n.keys) == 0 || len(n.holders) == 0 {
		return errors.New("a node without keys or holders")
	}
	if s.child(n.parent, n.keys[0]) != n {
		return errors.New("a node that is not found below its parent")
	}
	for i, h := range n.holders {
		if h.holding.node != n || h.holding.cache.serial != h.serial || h.worker != h.holding.cache.worker {
			return errors.New("a holder with the holding of another")
		}
		if i > 0 && n.holders[i-1].serial >= h.serial {
			return errors.New("holders out of order")
		}
		if above, _ := n.parent.find(h.holding.cache); n.parent != &s.root && above == nil {
			return errors.New("a holder that does not hold the parent")
		}
		units[h.holding.cache] += int64(len(n.keys))
	}
	return nil
}

// checkList counts a list and checks that ancestors are before descendants and last uses fall.
func checkList(l *useList) (n int64, err error) {
	seen := map[*holding]bool{}
	last := Tick(1<<64 - 1)
	for h := l.ring.links[l.kind].next; h != &l.ring; h = h.links[l.kind].next {
		seen[h] = true
		n++
		if above, _ := h.node.parent.find(h.cache); above != nil && !seen[above] {
			return n, errors.New("a descendant before its ancestor")
		}
		if h.used > last || h.usedPrev >= h.used {
			return n, errors.New("a list that is not by last use")
		}
		last = h.used
	}
	return n, nil
}

// SetMaxBytes sets a bound below the least that New allows, beside the fixed part and the free
// list.
func (t *Tree) SetMaxBytes(n int64) {
	t.nodes.free = freeList{max: n}
	t.liveBytes = t.nodes.bytes + n
	t.maxBytes = t.liveBytes + n
}

// check recounts the free list.
func (f *freeList) check() error {
	var bytes int64
	for class, n := range f.nodes {
		for ; n != nil; n = n.chained {
			bytes += n.byteSize()
			if keysClass(cap(n.keys)) != class || len(n.keys)+len(n.holders) != 0 || n.parent != nil {
				return errors.New("a free node in the wrong class, or in use")
			}
		}
	}
	for h := f.holdings; h != nil; h = h.links[ofAll].next {
		bytes += holdingBytes
		if h.node != nil || h.cache != nil {
			return errors.New("a free holding in use")
		}
	}
	if bytes != f.bytes || bytes > f.max {
		return fmt.Errorf("free list of %d bytes, counted %d, at most %d", bytes, f.bytes, f.max)
	}
	return nil
}
