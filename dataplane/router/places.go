package router

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/warmpath/warmpath/dataplane/cluster"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/routing"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
)

// places keeps which node each worker is on, and what was measured between nodes, as a cluster's view has it. Nodes keep their numbers as
// long as they are there, so that a choice that reads a worker's place beside newer links finds the same node.
type places struct {
	registry *worker.Registry
	router   *routing.Router
	told     func(map[string]uint32) // of the numbers of nodes; nil: nobody else needs them

	mu     sync.Mutex
	number map[string]uint32 // by node; guarded by mu
	node   map[string]string // by worker's URL; guarded by mu
}

func newPlaces(registry *worker.Registry, router *routing.Router) *places {
	return &places{registry: registry, router: router, number: map[string]uint32{}, node: map[string]string{}}
}

// take takes over a view.
func (p *places) take(v *cluster.View) {
	numbers := p.takeOver(v)
	if p.told != nil {
		p.told(numbers) // not under the lock: who is told may take his time
	}
}

func (p *places) takeOver(v *cluster.View) (numbers map[string]uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.renumberLocked(v.Nodes)
	clear(p.node)
	for i := range v.Nodes {
		for _, w := range v.Nodes[i].Workers {
			p.node[strings.TrimRight(w.URL, "/")] = v.Nodes[i].Name
		}
	}
	p.router.SetLinks(p.linksLocked(v.Nodes))
	p.assignLocked()
	return maps.Clone(p.number)
}

// assignLocked gives all workers their places.
func (p *places) assignLocked() {
	for _, w := range p.registry.Snapshot().Workers {
		w.SetPlace(p.number[p.node[w.URL]])
	}
}

// placesLook is how often workers are given places that came after the view that names them.
const placesLook = time.Second

// follow takes over each view until ctx ends.
func (p *places) follow(ctx context.Context, from viewer) error {
	stop := from.Watch(p.take)
	defer stop()
	look := time.NewTicker(placesLook)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
			p.mu.Lock()
			p.assignLocked()
			p.mu.Unlock()
		}
	}
}

// place returns a node's number, 0 for one that is not there.
func (p *places) place(node string) uint32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.number[node]
}

// renumberLocked forgets nodes that are gone and gives new ones the smallest free numbers.
func (p *places) renumberLocked(nodes []cluster.Node) {
	for name := range p.number {
		if !slices.ContainsFunc(nodes, func(n cluster.Node) bool { return n.Name == name }) {
			delete(p.number, name)
		}
	}
	taken := map[uint32]bool{}
	for _, n := range p.number {
		taken[n] = true
	}
	next := uint32(1)
	for i := range nodes {
		if p.number[nodes[i].Name] != 0 {
			continue
		}
		for taken[next] {
			next++
		}
		p.number[nodes[i].Name] = next
		taken[next] = true
	}
}

// linksLocked makes links of what nodes measured: what one can write to another or, where it has not measured that, what the other can read
// from it; and of tiers how fast their engines read them. nil where nothing was measured, as without a cluster: then pairs are chosen by usual speeds.
func (p *places) linksLocked(nodes []cluster.Node) *policy.Links {
	most, measured := uint32(0), false
	for _, n := range p.number {
		most = max(most, n)
	}
	links := policy.NewLinks(int(most))
	for _, writes := range []bool{false, true} { // the latter counts more
		for i := range nodes {
			for _, l := range nodes[i].Links {
				from, to, speed := p.number[nodes[i].Name], p.number[l.To], l.Write
				if !writes {
					from, to, speed = to, from, l.Read
				}
				if from == 0 || to == 0 || (speed <= 0 && l.Broken == "") {
					continue
				}
				measured = true
				links.Set(from, to, policy.Hop{Speed: max(speed, 0), Broken: l.Broken != ""})
			}
		}
	}
	for i := range nodes {
		if t := nodes[i].Tier; t != nil && t.Speed > 0 {
			measured = true
			links.SetTier(p.number[nodes[i].Name], t.Speed)
		}
	}
	if !measured {
		return nil
	}
	return links
}
