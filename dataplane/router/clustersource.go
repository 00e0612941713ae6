package router

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/dataplane/cluster"
	"github.com/warmpath/warmpath/dataplane/fleet/discover"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

const (
	// vanishedFor is how long workers of a node are used on that is gone without a word, while they answer their probes: what
	// vanished is its sidecar, which is restarted for every upgrade, and a machine that is really gone answers nothing. A worker
	// that a living node does not name any more leaves at once.
	vanishedFor = 30 * time.Second
	// retell is how often facts about GPUs are told again: well before worker.HealthFor, after which they count for nothing.
	retell = 5 * time.Second
	// clusterLook is how often nodes are looked at that are gone.
	clusterLook = time.Second
)

// viewer is what the source needs of a cluster.
type viewer interface {
	View() *cluster.View
	Watch(f func(*cluster.View)) (stop func())
}

var _ viewer = (*cluster.Cluster)(nil)

// clusterSource is the cluster as a source of workers: those of all nodes, less what operators' marks forbid. While NATS is out of
// reach the last view holds, and workers are judged by their probes alone.
//
// All is done by the goroutine in Run; only health is for others.
type clusterSource struct {
	from   viewer
	get    func(url string) (*worker.Worker, error)
	log    *slog.Logger
	health atomic.Pointer[map[string]worker.Health] // by URL, as of the last view that is up

	up    bool // some view was
	down  atomic.Bool
	nodes map[string]*seenNode
	taken map[string]bool // workers that were told
}

// seenNode is a node that is there, or was just now.
type seenNode struct {
	node cluster.Node
	gone time.Time // zero: it is there
}

var (
	_ discover.Source   = (*clusterSource)(nil)
	_ discover.Troubled = (*clusterSource)(nil)
)

func newClusterSource(from viewer, get func(string) (*worker.Worker, error), log *slog.Logger) *clusterSource {
	return &clusterSource{from: from, get: get, log: log, nodes: map[string]*seenNode{}, taken: map[string]bool{}}
}

// Name implements discover.Source.
func (*clusterSource) Name() string { return "cluster" }

// Trouble implements discover.Troubled.
func (s *clusterSource) Trouble() error {
	if s.down.Load() {
		return cluster.ErrDown
	}
	return nil
}

// Run implements discover.Source.
func (s *clusterSource) Run(ctx context.Context, set func([]worker.Spec)) error {
	views := make(chan *cluster.View, 1)
	stop := s.from.Watch(func(v *cluster.View) {
		select {
		case <-views: // an older one that nobody has looked at
		default:
		}
		views <- v
	})
	defer stop()
	look, again := time.NewTicker(clusterLook), time.NewTicker(retell)
	defer look.Stop()
	defer again.Stop()
	var view *cluster.View
	var told []worker.Spec
	for first := true; ; {
		select {
		case <-ctx.Done():
			return nil
		case view = <-views:
		case <-look.C:
		case <-again.C:
			s.heal()
			continue
		}
		specs, known := s.step(view, time.Now())
		if known && (first || !slices.Equal(specs, told)) {
			first, told = false, specs
			set(slices.Clone(specs))
		}
		s.heal() // after set, which has added the new ones
	}
}

// step takes in a view and returns the workers to use; known is false while nothing is known.
func (s *clusterSource) step(v *cluster.View, now time.Time) (specs []worker.Spec, known bool) {
	s.down.Store(v != nil && !v.Up)
	if v == nil || (!v.Up && !s.up) {
		return nil, false
	}
	if v.Up {
		s.see(v, now)
	}
	marks := map[string]cluster.Mark{}
	for _, m := range v.Marks {
		marks[strings.TrimRight(m.Target, "/")] = m
	}
	taken := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(s.nodes)) {
		node, gone := &s.nodes[name].node, !s.nodes[name].gone.IsZero()
		for i := range node.Workers {
			spec, ok := s.spec(&node.Workers[i])
			if !ok || taken[spec.URL] || (gone && !s.taken[spec.URL]) {
				continue
			}
			ofNode, ofWorker := marks[name], marks[spec.URL]
			if s.barred(node, spec.URL, &ofNode) || s.barred(node, spec.URL, &ofWorker) {
				continue
			}
			spec.Drain = ofNode.Drain || ofWorker.Drain
			taken[spec.URL] = true
			specs = append(specs, spec)
		}
	}
	s.taken, s.up = taken, true
	return specs, true
}

// see takes over what nodes say, and lets go of those that were gone for long enough.
func (s *clusterSource) see(v *cluster.View, now time.Time) {
	there, health := map[string]bool{}, map[string]worker.Health{}
	for _, n := range v.Nodes {
		there[n.Name] = true
		s.nodes[n.Name] = &seenNode{node: n}
		for i := range n.Workers {
			health[strings.TrimRight(n.Workers[i].URL, "/")] = nodeHealth(&n.Workers[i].Health)
		}
	}
	s.health.Store(&health)
	for name, n := range s.nodes {
		switch {
		case there[name]:
		case n.gone.IsZero():
			n.gone = now
			s.log.Warn("node is gone; its workers are used on while they answer", "node", name, "workers", len(n.node.Workers), "for", vanishedFor)
		case now.Sub(n.gone) >= vanishedFor:
			delete(s.nodes, name)
		}
	}
}

// barred reports whether a cordon keeps a worker out: one that was not used yet. A router that starts has used none, so it goes
// by who was there first, the node or the mark: the workers of a node that was cordoned while it ran are served by other routers.
func (s *clusterSource) barred(node *cluster.Node, url string, m *cluster.Mark) bool {
	if !m.Cordon || s.taken[url] {
		return false
	}
	return s.up || !node.Started.Before(m.At)
}

// spec is a node's worker in the registry's form.
func (s *clusterSource) spec(w *cluster.Worker) (worker.Spec, bool) {
	spec := worker.Spec{URL: w.URL}
	spec.Role, _ = worker.ParseRole(w.Role) // a word of a later release expects nothing: the worker's own counts
	if spec.Role == worker.RolePrefill {
		spec.Bootstrap = worker.Bootstrap{Host: w.BootstrapHost, Port: w.BootstrapPort}
	}
	spec, err := spec.Normal()
	if err != nil {
		s.log.Debug("a node names a worker that cannot be one", "worker", w.URL, "error", err)
	}
	return spec, err == nil
}

// heal tells the registry how the workers' GPUs are. Without NATS the facts grow old, and count for nothing after a while.
func (s *clusterSource) heal() {
	health := s.health.Load()
	if health == nil || s.down.Load() {
		return
	}
	for url, h := range *health {
		if w, err := s.get(url); err == nil {
			w.SetHealth(h)
		}
	}
}
