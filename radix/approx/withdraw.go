package approx

// Withdraw takes back an Insert of chain for w, made at since: the request never reached the worker, or was aborted before its prompt
// was computed. What the insert found there stays, and so does what another request has used since: that one predicts it by itself.
func (t *Tree) Withdraw(w Worker, chain []Key, since Tick) {
	if since == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.ownerLocked(w)
	if o == nil {
		return
	}
	for n := t.deepest(o, chain[:min(len(chain), t.maxChain)]); n != &t.root; {
		h, _ := n.find(o)
		// An answer that proves a part uses it too, at a later tick.
		if h.born != since || h.used != since {
			return
		}
		n = n.parent // before the node goes with its last holder
		t.stats.Withdrawn++
		t.dropLocked(h)
	}
}

// deepest returns the last node of chain's path that o holds; the root if there is none.
func (t *Tree) deepest(o *owner, chain []Key) *node {
	at := &t.root
	for len(chain) > 0 {
		next := t.child(at, chain[0])
		if next == nil {
			break
		}
		if h, _ := next.find(o); h == nil || common(next.run, chain) < len(next.run) {
			break
		}
		chain, at = chain[len(next.run):], next
	}
	return at
}
