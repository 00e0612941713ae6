package fleet

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/dataplane/cluster"
	"github.com/warmpath/warmpath/dataplane/fleet/discover"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

const (
	// lostNodeGrace is how long the workers of a node stay in use after its record expired,
	// while they answer probes. Mostly its sidecar restarts for an upgrade; the workers of a
	// machine that is gone answer nothing. A worker that a living node does not name any more
	// leaves at once.
	lostNodeGrace = 30 * time.Second
	// healthInterval is the time between two announcements of GPU health, well below
	// worker.HealthFor, after which health counts for nothing.
	healthInterval = 5 * time.Second
	// lostNodeInterval is the time between two checks of lost nodes.
	lostNodeInterval = time.Second
)

// Viewer shows the records of a cluster.
type Viewer interface {
	View() *cluster.View
	Watch(f func(*cluster.View)) (stop func())
}

var _ Viewer = (*cluster.Cluster)(nil)

// ClusterSource is a cluster as a source of workers: the workers of all nodes, less the cordoned
// ones. While NATS is out of reach the last view holds, and probes alone judge the workers.
//
// The goroutine of Run owns all fields but health and down.
type ClusterSource struct {
	from   Viewer
	get    func(url string) (*worker.Worker, error)
	log    *slog.Logger
	health atomic.Pointer[map[string]worker.Health] // by URL, of the last view with NATS
	down   atomic.Bool

	joined bool // some view had NATS
	nodes  map[string]*nodeState
	claims *claims
	named  map[string]bool // workers of the last answer
}

// nodeState is a node of the cluster, or one whose record has just expired.
type nodeState struct {
	node cluster.Node
	lost time.Time // zero: it is there
	// It lives, and only a later release reads its record; this was logged.
	newer bool
}

var (
	_ discover.Source   = (*ClusterSource)(nil)
	_ discover.Troubled = (*ClusterSource)(nil)
)

// NewClusterSource returns a source of the workers in from; get returns a worker of the registry.
func NewClusterSource(from Viewer, get func(string) (*worker.Worker, error), log *slog.Logger) *ClusterSource {
	return &ClusterSource{from: from, get: get, log: log, nodes: map[string]*nodeState{}, claims: newClaims(log), named: map[string]bool{}}
}

// Name implements discover.Source.
func (*ClusterSource) Name() string { return "cluster" }

// Trouble implements discover.Troubled.
func (s *ClusterSource) Trouble() error {
	if s.down.Load() {
		return cluster.ErrDown
	}
	return nil
}

// Run implements discover.Source.
func (s *ClusterSource) Run(ctx context.Context, set func([]worker.Spec)) error {
	views := make(chan *cluster.View, 1)
	stop := s.from.Watch(func(v *cluster.View) {
		select {
		case <-views: // an unread, older one
		default:
		}
		views <- v
	})
	defer stop()
	expire, health := time.NewTicker(lostNodeInterval), time.NewTicker(healthInterval)
	defer expire.Stop()
	defer health.Stop()
	var view *cluster.View
	var last []worker.Spec
	for first := true; ; {
		select {
		case <-ctx.Done():
			return nil
		case view = <-views:
		case <-expire.C:
		case <-health.C:
			s.publishHealth()
			continue
		}
		specs, known := s.specs(view, time.Now())
		if known && (first || !slices.Equal(specs, last)) {
			first, last = false, specs
			set(slices.Clone(specs))
		}
		s.publishHealth() // after set, which has added the new ones
	}
}

// specs returns the workers to use now; known is false before the first view with NATS.
func (s *ClusterSource) specs(v *cluster.View, now time.Time) (specs []worker.Spec, known bool) {
	s.down.Store(v != nil && !v.Up)
	if v == nil || (!v.Up && !s.joined) {
		return nil, false
	}
	if v.Up {
		s.update(v, now)
	}
	marks := map[string]cluster.Mark{}
	for _, m := range v.Marks {
		marks[worker.NormalURL(m.Target)] = m
	}
	named := map[string]bool{}
	at := map[string]int{} // in specs, by URL
	for _, name := range slices.Sorted(maps.Keys(s.nodes)) {
		node, lost := &s.nodes[name].node, !s.nodes[name].lost.IsZero()
		for i := range node.Workers {
			w := &node.Workers[i]
			owner := s.claims.owner(w.URL)
			if owner != name {
				w = &cluster.Worker{URL: w.URL} // the worker tells the rest of itself
			}
			spec, ok := s.spec(w)
			if !ok || (lost && !s.named[spec.URL]) || (owner != name && s.names(owner, spec.URL)) {
				continue
			}
			ofNode, ofWorker := marks[name], marks[spec.URL]
			if named[spec.URL] { // by several
				specs[at[spec.URL]].Drain = specs[at[spec.URL]].Drain || ofNode.Drain
				continue
			}
			if s.cordoned(node, spec.URL, &ofNode) || s.cordoned(node, spec.URL, &ofWorker) {
				continue
			}
			spec.Drain = ofNode.Drain // the worker's own is the manager's
			named[spec.URL], at[spec.URL] = true, len(specs)
			specs = append(specs, spec)
		}
	}
	s.named, s.joined = named, true
	return specs, true
}

// update takes over the records of a view, and drops nodes that were lost for long enough.
func (s *ClusterSource) update(v *cluster.View, now time.Time) {
	there, health := map[string]bool{}, map[string]worker.Health{}
	s.claims.update(v, now)
	for _, n := range v.Nodes {
		there[n.Name] = true
		s.nodes[n.Name] = &nodeState{node: n}
		for i := range n.Workers {
			if s.claims.owner(n.Workers[i].URL) == n.Name {
				health[worker.NormalURL(n.Workers[i].URL)] = workerHealth(&n.Workers[i].Health)
			}
		}
	}
	s.health.Store(&health)
	for name, n := range s.nodes {
		switch {
		case there[name]:
		case n.lost.IsZero():
			n.lost = now
			s.log.Warn("node is gone; its workers stay in use while they answer", "node", name, "workers", len(n.node.Workers), "for", lostNodeGrace)
		case slices.Contains(v.Newer, name):
			if n.lost = now; !n.newer {
				n.newer = true
				s.log.Warn("node runs a later release, whose record this router cannot read; its last workers stay in use", "node", name)
			}
		case now.Sub(n.lost) >= lostNodeGrace:
			delete(s.nodes, name)
		}
	}
}

// names reports whether a node that is there, or was lately, names a worker.
func (s *ClusterSource) names(name, url string) bool {
	n := s.nodes[name]
	return n != nil && slices.ContainsFunc(n.node.Workers, func(w cluster.Worker) bool { return worker.NormalURL(w.URL) == url })
}

// cordoned reports whether a cordon keeps out a worker that is not in use yet. A router that
// has just started uses none, so it compares times: other routers serve the workers of a node
// that ran before it was cordoned.
func (s *ClusterSource) cordoned(node *cluster.Node, url string, m *cluster.Mark) bool {
	if !m.Cordon || s.named[url] {
		return false
	}
	if _, err := s.get(url); err == nil {
		return false // although its node may have left it out for a moment
	}
	return s.joined || !node.Started.Before(m.At)
}

// spec converts a worker's record.
func (s *ClusterSource) spec(w *cluster.Worker) (worker.Spec, bool) {
	spec := worker.Spec{URL: w.URL}
	// Unknown, of a later release: the worker's own role counts.
	spec.Role, _ = worker.ParseRole(w.Role)
	if spec.Role == worker.RolePrefill {
		spec.Bootstrap = worker.Bootstrap{Host: w.BootstrapHost, Port: w.BootstrapPort}
	}
	spec, err := spec.Normal()
	if err != nil {
		s.log.Debug("a node names an unusable worker", "worker", w.URL, "error", err)
	}
	return spec, err == nil
}

// publishHealth gives the registry the GPU health of the workers. Without NATS it grows old, and
// counts for nothing after a while.
func (s *ClusterSource) publishHealth() {
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

// workerHealth converts the health of a record.
func workerHealth(h *cluster.Health) worker.Health {
	state, _ := worker.ParseGPUState(h.State)
	return worker.Health{State: state, Weight: h.Weight, NoTP: h.NoTP, Free: h.Free, Reasons: h.Reasons}
}
