package sim

import "sync"

// activeIDs counts the sequences of each request id in progress. /abort_request ignores other
// ids.
type activeIDs struct {
	mu   sync.Mutex
	byID map[string]int // Number of sequences with the id.
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
