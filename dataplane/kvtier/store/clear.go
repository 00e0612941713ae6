package store

import (
	"maps"
	"time"
)

// A clear drops all pages of a model, here and at peers. Each clear has a stamp above all stamps
// that the store knows. Stores exchange stamps after a clear and when they connect, and give
// pages only to a store with the same stamp. So a pull that began before a clear brings nothing
// back, and a peer that was out of reach drops its pages before it gives any.

// maxClearSkew bounds the clock of a peer. A clear from further ahead is ignored, as no later clear
// could have a larger stamp; that peer's pages of the model are then not pulled either.
const maxClearSkew = 24 * time.Hour

// clear drops all pages of the model of a namespace. It returns the clear, for peers; none where no
// namespace has the name.
func (p *pages) clear(name string) (dropped int, c clears) {
	p.mu.Lock()
	spaces := &p.index.spaces
	ns, ok := spaces.byName[name]
	if !ok {
		p.mu.Unlock()
		return 0, nil
	}
	model := spaces.byID[ns].model
	stamp := max(spaces.cleared[model]+1, uint64(p.now().UnixNano()))
	dropped = spaces.clear(model, stamp)
	p.mu.Unlock()
	p.counts.add(func(c *Stats) { c.Clears++ })
	p.wake()
	p.collect()
	return dropped, clears{model: stamp}
}

// adopt does the clears of a peer that are new here, and returns all that are known.
func (p *pages) adopt(theirs clears) clears {
	dropped := false
	latest := uint64(p.now().Add(maxClearSkew).UnixNano())
	p.mu.Lock()
	spaces := &p.index.spaces
	for model, stamp := range theirs {
		if stamp > spaces.cleared[model] && stamp <= latest {
			spaces.clear(model, stamp)
			dropped = true
		}
	}
	own := clears(maps.Clone(spaces.cleared))
	p.mu.Unlock()
	if dropped {
		p.counts.add(func(c *Stats) { c.Clears++ })
		p.wake()
		p.collect()
	}
	return own
}
