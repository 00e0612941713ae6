package approx

// Overlap is how much of a prompt a worker is believed to hold.
type Overlap struct {
	Worker Worker
	Units  int // leading units; at least 1
}

// Match appends to dst each worker that is believed to hold leading units of chain, in no particular order.
func (t *Tree) Match(dst []Overlap, chain []Key) []Overlap {
	chain = chain[:min(len(chain), t.maxChain)]
	t.mu.RLock()
	defer t.mu.RUnlock()
	at, depth := &t.root, 0
	for depth < len(chain) {
		next := t.child(at, chain[depth])
		if next == nil {
			break
		}
		dst = t.appendLeft(dst, at.holders, next.holders, depth)
		n := common(next.run, chain[depth:])
		at = next
		depth += n
		if n < len(next.run) {
			break
		}
	}
	return t.appendLeft(dst, at.holders, nil, depth)
}

// appendLeft appends those of a that are not in b, which is a subset of it: their overlap ends at depth.
func (t *Tree) appendLeft(dst []Overlap, a, b []holder, depth int) []Overlap {
	if len(a) == len(b) {
		return dst
	}
	for i := range a {
		if len(b) > 0 && b[0].serial == a[i].serial {
			b = b[1:]
			continue
		}
		// The flag lies behind the hold, and is read only in the moments after a worker was cleared.
		if t.draining > 0 && a[i].hold.owner.dead {
			continue
		}
		dst = append(dst, Overlap{a[i].worker, depth})
	}
	return dst
}
