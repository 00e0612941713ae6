package approx

import (
	"errors"
	"fmt"
	"unsafe"
)

// Check recounts everything and reports the first thing that is not as it should be.
func (t *Tree) Check() error {
	t.mu.RLock()
	defer t.mu.RUnlock()
	bytes := int64(len(t.buckets))*int64(unsafe.Sizeof(t.buckets[0])) + int64(len(t.owners))*ownerBytes
	var nodes, holds int64
	units := map[*owner]int64{}
	for _, n := range t.buckets {
		for ; n != nil; n = n.chained {
			nodes++
			bytes += n.bytes() + int64(len(n.holders))*holdBytes
			holds += int64(len(n.holders))
			if err := t.checkNode(n, units); err != nil {
				return err
			}
		}
	}
	if bytes != t.stats.Bytes || nodes != t.stats.Nodes || holds != t.stats.Holds {
		return fmt.Errorf("recount is %d bytes, %d nodes, %d holds; stats are %+v", bytes, nodes, holds, t.stats)
	}
	if err := t.spares.check(); err != nil {
		return err
	}
	if bytes > t.liveBytes || bytes+t.spares.bytes > t.maxBytes {
		return fmt.Errorf("%d bytes and %d of spares exceed the bound of %d", bytes, t.spares.bytes, t.maxBytes)
	}
	for o, n := range units {
		if o.units != n {
			return fmt.Errorf("worker %d holds %d units, has counted %d", o.worker, n, o.units)
		}
	}
	for _, o := range t.owners {
		if o != nil {
			if _, err := checkList(&o.list); err != nil {
				return err
			}
		}
	}
	if n, err := checkList(&t.all); err != nil || n != holds {
		return fmt.Errorf("the list of all has %d holds of %d: %w", n, holds, err)
	}
	return nil
}

func (t *Tree) checkNode(n *node, units map[*owner]int64) error {
	if len(n.run) == 0 || len(n.holders) == 0 {
		return errors.New("a node without keys or holders")
	}
	if t.child(n.parent, n.run[0]) != n {
		return errors.New("a node that its parent does not find")
	}
	for i, h := range n.holders {
		if h.hold.node != n || h.hold.owner.serial != h.serial || h.worker != h.hold.owner.worker {
			return errors.New("a holder that is not its hold's")
		}
		if i > 0 && n.holders[i-1].serial >= h.serial {
			return errors.New("holders out of order")
		}
		if above, _ := n.parent.find(h.hold.owner); n.parent != &t.root && above == nil {
			return errors.New("a holder that does not hold the parent")
		}
		units[h.hold.owner] += int64(len(n.run))
	}
	return nil
}

// checkList counts a list and checks that ancestors stand before descendants and last uses fall.
func checkList(l *list) (n int64, err error) {
	seen := map[*hold]bool{}
	last := Tick(1<<64 - 1)
	for h := l.ring.links[l.kind].next; h != &l.ring; h = h.links[l.kind].next {
		seen[h] = true
		n++
		if above, _ := h.node.parent.find(h.owner); above != nil && !seen[above] {
			return n, errors.New("a descendant before its ancestor")
		}
		if h.used > last || h.prior >= h.used {
			return n, errors.New("a list that is not by last use")
		}
		last = h.used
	}
	return n, nil
}

// SetMaxBytes sets a bound below what New allows, beyond the fixed part and spares.
func (t *Tree) SetMaxBytes(n int64) {
	t.spares = spares{max: n}
	t.liveBytes = t.stats.Bytes + n
	t.maxBytes = t.liveBytes + n
}

// check recounts the spares.
func (s *spares) check() error {
	var bytes int64
	for class, n := range s.nodes {
		for ; n != nil; n = n.chained {
			bytes += n.bytes()
			if runClass(cap(n.run)) != class || len(n.run)+len(n.holders) != 0 || n.parent != nil {
				return errors.New("a spare node in the wrong class, or in use")
			}
		}
	}
	for h := s.holds; h != nil; h = h.links[ofAll].next {
		bytes += holdBytes
		if h.node != nil || h.owner != nil {
			return errors.New("a spare hold in use")
		}
	}
	if bytes != s.bytes || bytes > s.max {
		return fmt.Errorf("spares of %d bytes, counted %d, at most %d", bytes, s.bytes, s.max)
	}
	return nil
}
