package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/warmpath/warmpath/dataplane/cluster"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/secrets"
)

// Marker keeps the drain and cordon marks of a cluster.
type Marker interface {
	Viewer
	Mark(ctx context.Context, m cluster.Mark) error
	Unmark(ctx context.Context, target string) error
}

var _ Marker = (*cluster.Cluster)(nil)

const (
	// markTimeout bounds the wait of a drain until this router has read its own mark, which takes
	// some milliseconds.
	markTimeout  = 2 * time.Second
	markInterval = 2 * time.Millisecond
)

// ErrUnknownNode is a node that the router does not know of.
var ErrUnknownNode = errors.New("there is no such node")

// Target is the worker or node that an operator drains or cordons; a node stands for its workers.
type Target struct{ URL, Node string } // one of them

// Scope is the extent of a drain or cordon.
type Scope struct {
	Cluster bool
	Reason  string // why it does not hold in the cluster, if there is one
}

// drainer drains and cordons workers and nodes for operators: by the marks of a cluster, or at this
// router alone.
type drainer struct {
	registry *worker.Registry
	marker   Marker                // nil: there is no cluster
	changed  func()                // applies new marks
	named    func(url string) bool // whether a source names a worker

	marksMu sync.Mutex
	marks   map[string]cluster.Mark // by target; replaced, never changed; guarded by marksMu
	applied map[string]cluster.Mark // as of the last call of changed; guarded by marksMu
}

// SetMarks takes over the drain and cordon marks of the cluster.
func (d *drainer) SetMarks(list []cluster.Mark) {
	marks := make(map[string]cluster.Mark, len(list))
	for _, m := range list {
		marks[worker.NormalURL(m.Target)] = m
	}
	d.replaceMarks(func(map[string]cluster.Mark) map[string]cluster.Mark { return marks })
}

// replaceMarks puts new marks in the place of the old ones.
func (d *drainer) replaceMarks(with func(old map[string]cluster.Mark) map[string]cluster.Mark) {
	d.marksMu.Lock()
	marks := with(d.marks)
	same := maps.Equal(marks, d.marks)
	d.marks = marks
	d.marksMu.Unlock()
	if same {
		return
	}
	d.changed()
	d.marksMu.Lock()
	defer d.marksMu.Unlock()
	d.applied = d.marks
}

// current returns the marks by target.
func (d *drainer) current() map[string]cluster.Mark {
	d.marksMu.Lock()
	defer d.marksMu.Unlock()
	return d.marks
}

// Marks returns the drain and cordon marks in force, by target. A worker that is drained at this
// router alone has none.
func (d *drainer) Marks() (all []cluster.Mark) {
	marks := d.current()
	for _, target := range slices.Sorted(maps.Keys(marks)) {
		all = append(all, marks[target])
	}
	return all
}

// marked reports whether an applied mark of the cluster drains the worker.
func (d *drainer) marked(url string) bool {
	d.marksMu.Lock()
	defer d.marksMu.Unlock()
	return d.applied[url].Drain
}

// operatorAPI is the author of the marks that are set here.
const operatorAPI = "operator API"

// mark changes the mark of a node or worker in the cluster; the rest of the mark stays.
func (d *drainer) mark(ctx context.Context, target string, change func(*cluster.Mark)) error {
	m, all := cluster.Mark{Target: target}, d.marker.View().Marks
	if i := slices.IndexFunc(all, func(m cluster.Mark) bool { return worker.NormalURL(m.Target) == target }); i >= 0 {
		m = all[i]
	}
	if change(&m); !m.Drain && !m.Cordon {
		return d.marker.Unmark(ctx, m.Target)
	}
	m.By, m.At = operatorAPI, time.Now().UTC()
	return d.marker.Mark(ctx, m)
}

// await returns when this router has applied a mark, or after a while.
func await(ctx context.Context, applied func() bool) {
	ctx, cancel := context.WithTimeout(ctx, markTimeout)
	defer cancel()
	tick := time.NewTicker(markInterval)
	defer tick.Stop()
	for !applied() {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Drain begins or ends the drain of a worker or node. In a cluster it sets a mark, which holds at
// every router and outlives this one. Without a connection to the cluster only a worker can be
// drained, at this router.
func (d *drainer) Drain(ctx context.Context, target Target, on bool) (Scope, error) {
	if target.Node != "" {
		return d.drainNode(ctx, target.Node, on)
	}
	spec, err := worker.Spec{URL: target.URL}.Normal()
	if err != nil {
		return Scope{}, err
	}
	w, err := d.registry.Get(spec.URL)
	switch {
	case err != nil:
		return Scope{}, err
	case d.marker == nil:
		w.Drain(on)
		return Scope{}, nil
	}
	err = d.mark(ctx, spec.URL, func(m *cluster.Mark) { m.Drain = on })
	switch {
	case err == nil:
		w.Drain(false) // set while the cluster was out of reach
		await(ctx, func() bool { return d.marked(spec.URL) == on })
		return Scope{Cluster: true}, nil
	case !errors.Is(err, cluster.ErrDown):
		return Scope{}, err
	case on:
		w.Drain(true)
	case w.Drains(worker.DrainOperator) && !d.marked(spec.URL):
		w.Drain(false)
	default: // the mark holds at all routers, this one included
		return Scope{}, fmt.Errorf("cannot end the drain of %s: %w", spec.URL, err)
	}
	return Scope{Reason: "other routers do not know of it: " + err.Error()}, nil
}

// drainNode drains all workers of a node, at all routers of the cluster.
func (d *drainer) drainNode(ctx context.Context, name string, on bool) (Scope, error) {
	node, err := d.node(name)
	if err != nil {
		return Scope{}, err
	}
	if err := d.mark(ctx, name, func(m *cluster.Mark) { m.Drain = on }); err != nil {
		return Scope{}, err
	}
	await(ctx, func() bool {
		for i := range node.Workers {
			url := worker.NormalURL(node.Workers[i].URL)
			if w, err := d.registry.Get(url); err == nil && w.Drains(worker.DrainSource) != (on || d.marked(url)) {
				return false
			}
		}
		return true
	})
	return Scope{Cluster: true}, nil
}

// node returns a node of the cluster; one that is away is known by its mark, and has no workers.
func (d *drainer) node(name string) (*cluster.Node, error) {
	if d.marker == nil {
		return nil, fmt.Errorf("cannot find node %s: %w: this router is in no cluster; name a worker by its URL", name, ErrUnknownNode)
	}
	v := d.marker.View()
	if i := slices.IndexFunc(v.Nodes, func(n cluster.Node) bool { return n.Name == name }); i >= 0 {
		return &v.Nodes[i], nil
	}
	if slices.ContainsFunc(v.Marks, func(m cluster.Mark) bool { return m.Target == name }) {
		return &cluster.Node{Name: name}, nil
	}
	return nil, fmt.Errorf("cannot find node %s: %w in the cluster", name, ErrUnknownNode)
}

// Cordon begins or ends the cordon of a worker or node: sources add no worker that it names, and
// those in use serve on. In a cluster it is a mark, as a drain is. A router without a cluster keeps
// it while it runs.
func (d *drainer) Cordon(ctx context.Context, target Target, on bool) (Scope, error) {
	name := target.Node
	if name != "" {
		if _, err := d.node(name); err != nil {
			return Scope{}, err
		}
	} else {
		spec, err := worker.Spec{URL: target.URL}.Normal()
		if err != nil {
			return Scope{}, err
		}
		name = spec.URL
		_, err = d.registry.Get(name)
		if _, marked := d.current()[name]; err != nil && !marked && !d.named(name) {
			return Scope{}, fmt.Errorf("cannot find worker %s: %w", secrets.MaskURL(name), worker.ErrUnknown)
		}
	}
	if d.marker != nil {
		return Scope{Cluster: true}, d.mark(ctx, name, func(m *cluster.Mark) { m.Cordon = on })
	}
	d.replaceMarks(func(old map[string]cluster.Mark) map[string]cluster.Mark {
		marks := map[string]cluster.Mark{}
		maps.Copy(marks, old)
		if !on {
			delete(marks, name)
		} else if _, there := marks[name]; !there {
			marks[name] = cluster.Mark{Target: name, Cordon: true, By: operatorAPI, At: time.Now().UTC()}
		}
		return marks
	})
	return Scope{}, nil
}
