package fleet

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/warmpath/warmpath/dataplane/cluster"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
)

// Topology numbers the nodes of a cluster from 1, gives each worker the number of its node, and
// publishes the measured links between nodes. A node keeps its number while it is there, so that
// a choice that reads a worker's node beside newer links finds the same node.
type Topology struct {
	registry *worker.Registry
	links    func(*policy.Links)     // takes new links; nil: none were measured
	numbers  func(map[string]uint32) // takes new node numbers; may be nil

	mu     sync.Mutex
	number map[string]uint32 // by node; guarded by mu
	node   map[string]string // by worker's URL; guarded by mu
	claims *claims           // guarded by mu
}

// NewTopology returns a topology of the workers in registry. links takes the links between nodes
// at each change, and numbers, which may be nil, the numbers of the nodes.
func NewTopology(registry *worker.Registry, links func(*policy.Links), numbers func(map[string]uint32)) *Topology {
	return &Topology{registry: registry, links: links, numbers: numbers, number: map[string]uint32{}, node: map[string]string{}, claims: newClaims(nil)}
}

// update takes over a view.
func (t *Topology) update(v *cluster.View) {
	numbers := t.replace(v)
	if t.numbers != nil {
		t.numbers(numbers) // not under the lock: the receiver may take its time
	}
}

func (t *Topology) replace(v *cluster.View) (numbers map[string]uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.renumberLocked(v.Nodes)
	clear(t.node)
	t.claims.update(v, time.Now())
	for i := range v.Nodes {
		for _, w := range v.Nodes[i].Workers {
			if t.claims.owner(w.URL) == v.Nodes[i].Name {
				t.node[worker.NormalURL(w.URL)] = v.Nodes[i].Name
			}
		}
	}
	t.links(t.linksLocked(v.Nodes))
	t.assignLocked()
	return maps.Clone(t.number)
}

// assignLocked gives all workers the numbers of their nodes.
func (t *Topology) assignLocked() {
	for _, w := range t.registry.Snapshot().Workers {
		w.SetNodeNumber(t.number[t.node[w.URL]])
	}
}

// assignInterval bounds the delay for workers that are added after the view that names them.
const assignInterval = time.Second

// Follow takes over each view until ctx ends.
func (t *Topology) Follow(ctx context.Context, from Viewer) error {
	stop := from.Watch(t.update)
	defer stop()
	tick := time.NewTicker(assignInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			t.mu.Lock()
			t.assignLocked()
			t.mu.Unlock()
		}
	}
}

// Name returns the name of the node with a number, "" for an unknown one.
func (t *Topology) Name(number uint32) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, n := range t.number {
		if n == number {
			return name
		}
	}
	return ""
}

// renumberLocked forgets nodes that are gone and gives new ones the smallest free numbers.
func (t *Topology) renumberLocked(nodes []cluster.Node) {
	for name := range t.number {
		if !slices.ContainsFunc(nodes, func(n cluster.Node) bool { return n.Name == name }) {
			delete(t.number, name)
		}
	}
	used := map[uint32]bool{}
	for _, n := range t.number {
		used[n] = true
	}
	next := uint32(1)
	for i := range nodes {
		if t.number[nodes[i].Name] != 0 {
			continue
		}
		for used[next] {
			next++
		}
		t.number[nodes[i].Name] = next
		used[next] = true
	}
}

// linksLocked converts the measurements of nodes: the speed at which one writes to another or,
// where that was not measured, at which the other reads from it; and the speed at which engines
// read the KV tier of their node. It returns nil without any measurement, as without a cluster:
// pairs are then chosen by usual speeds.
func (t *Topology) linksLocked(nodes []cluster.Node) *policy.Links {
	largest, measured := uint32(0), false
	for _, n := range t.number {
		largest = max(largest, n)
	}
	links := policy.NewLinks(int(largest))
	for _, writes := range []bool{false, true} { // writes replace reads
		for i := range nodes {
			for _, l := range nodes[i].Links {
				from, to, speed := t.number[nodes[i].Name], t.number[l.To], l.Write
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
		if tier := nodes[i].Tier; tier != nil && tier.Speed > 0 {
			measured = true
			links.SetTier(t.number[nodes[i].Name], tier.Speed)
		}
	}
	if !measured {
		return nil
	}
	return links
}
