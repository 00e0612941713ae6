package sim

import "sync"

// registry knows the requests in work by id. /abort_request looks here first: an
// id that is unknown aborts nothing.
type registry struct {
	mu   sync.Mutex
	byID map[string]int // how many sequences carry the id
}

func (g *registry) add(id string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.byID == nil {
		g.byID = make(map[string]int)
	}
	g.byID[id]++
}

func (g *registry) remove(id string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.byID[id]--; g.byID[id] == 0 {
		delete(g.byID, id)
	}
}

func (g *registry) has(id string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.byID[id] > 0
}
