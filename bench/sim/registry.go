package sim

import "sync"

// activeIDs knows the requests in work by id. /abort_request looks here first: an
// id that is unknown aborts nothing.
type activeIDs struct {
	mu   sync.Mutex
	byID map[string]int // how many sequences carry the id
}

func (g *activeIDs) add(id string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.byID == nil {
		g.byID = make(map[string]int)
	}
	g.byID[id]++
}

func (g *activeIDs) remove(id string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.byID[id]--; g.byID[id] == 0 {
		delete(g.byID, id)
	}
}

func (g *activeIDs) has(id string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.byID[id] > 0
}
