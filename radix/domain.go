package radix

// Domain is an interned [DomainKey]. Chains of different domains never meet.
type Domain uint32

// DomainKey is all that keeps equal tokens from being equal blocks.
type DomainKey struct {
	Model     string
	BlockSize int    // tokens
	LoRA      string // adapter name; empty for the base model
	Salt      string // cache salt of a tenant; empty for the shared cache
	Bigram    bool   // EAGLE pages, whose tokens are pairs
}

// Domain interns k. Domains live as long as the index: on the path of client requests, where keys hold what clients
// sent, use [Index.FindDomain].
func (x *Index) Domain(k DomainKey) Domain {
	x.mu.Lock()
	defer x.mu.Unlock()
	if d, ok := x.domains[k]; ok {
		return d
	}
	roots := *x.roots.Load()
	d := Domain(len(roots))
	// Readers of the shorter slice never look behind its end, so its array may be shared.
	roots = append(roots, newRun(x.lastRun.Add(1), d, nil, 0, nil, nil).face.Load())
	x.domains[k] = d
	x.roots.Store(&roots)
	return d
}

// FindDomain returns the domain of k if it has been interned. Nobody holds a block of one that has not.
func (x *Index) FindDomain(k DomainKey) (Domain, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	d, ok := x.domains[k]
	return d, ok
}

// root returns the face of the empty run that a domain's chains start from, or nil.
func (x *Index) root(d Domain) *face {
	roots := *x.roots.Load()
	if uint64(d) >= uint64(len(roots)) {
		return nil
	}
	return roots[d]
}
