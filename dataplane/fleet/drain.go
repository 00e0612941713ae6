package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/warmpath/warmpath/dataplane/cluster"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/secrets"
)

// Marker keeps the drain and cordon marks of a cluster.
type Marker interface {
	Viewer
	ChangeMark(ctx context.Context, target string, change func(*cluster.Mark)) error
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

// SetMarks takes over the drain and cordon marks of the cluster.
func (m *Manager) SetMarks(list []cluster.Mark) {
	marks := make(map[string]cluster.Mark, len(list))
	for _, one := range list {
		marks[worker.NormalURL(one.Target)] = one
	}
	m.replaceMarks(func(map[string]cluster.Mark) map[string]cluster.Mark { return marks })
}

// replaceMarks puts new marks in the place of the old ones.
func (m *Manager) replaceMarks(with func(old map[string]cluster.Mark) map[string]cluster.Mark) {
	m.mu.Lock()
	defer m.mu.Unlock()
	marks := with(m.marks)
	if !maps.Equal(marks, m.marks) {
		m.marks = marks
		m.reconcileNowLocked()
	}
}

// Marks returns the drain and cordon marks in force, by target. A worker that is drained at this
// router alone has none.
func (m *Manager) Marks() (all []cluster.Mark) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, target := range slices.Sorted(maps.Keys(m.marks)) {
		all = append(all, m.marks[target])
	}
	return all
}

// inForce returns the mark in force of a target, without its author.
func (m *Manager) inForce(target string) cluster.Mark {
	m.mu.Lock()
	defer m.mu.Unlock()
	mark := m.marks[target]
	return cluster.Mark{Target: target, Drain: mark.Drain, Cordon: mark.Cordon}
}

// target returns a worker's URL in normal form if the worker is in use, or if operators, sources or
// marks name it: it may be away, or wait for the end of its last removal.
func (m *Manager) target(text string) (url string, err error) {
	spec, err := worker.Spec{URL: text}.Normal()
	if err != nil {
		return "", err
	}
	url = spec.URL
	m.mu.Lock()
	defer m.mu.Unlock()
	_, added := m.added[url]
	_, marked := m.marks[url]
	if m.members[url] == nil && !added && !marked && !m.drained[url] && !m.namedLocked(url) {
		return "", fmt.Errorf("cannot find worker %s: %w", secrets.MaskURL(url), worker.ErrUnknown)
	}
	return url, nil
}

// operatorAPI is the author of the marks that are set here.
const operatorAPI = "operator API"

// mark changes the mark of a node or worker in the cluster; the rest of the mark stays. It returns
// when the change is in force here, so that the next one knows of it, or after markTimeout.
func (m *Manager) mark(ctx context.Context, target string, change func(*cluster.Mark)) error {
	name, all := target, m.marker.View().Marks
	if i := slices.IndexFunc(all, func(one cluster.Mark) bool { return worker.NormalURL(one.Target) == target }); i >= 0 {
		name = all[i].Target
	}
	err := m.marker.ChangeMark(ctx, name, func(mark *cluster.Mark) {
		change(mark)
		mark.By, mark.At = operatorAPI, time.Now().UTC()
	})
	if err == nil {
		await(ctx, func() bool {
			now := m.inForce(target)
			wanted := now
			change(&wanted)
			return now == wanted
		})
	}
	return err
}

// await returns when this router has applied a mark, or after markTimeout.
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
func (m *Manager) Drain(ctx context.Context, target Target, on bool) (Scope, error) {
	if target.Node != "" {
		return m.drainNode(ctx, target.Node, on)
	}
	url, err := m.target(target.URL)
	switch {
	case err != nil:
		return Scope{}, err
	case m.marker == nil:
		m.drainHere(url, on)
		return Scope{}, nil
	}
	err = m.mark(ctx, url, func(mark *cluster.Mark) { mark.Drain = on })
	marked := m.inForce(url).Drain
	switch {
	case err == nil:
		if marked || !on { // else what was set while the cluster was out of reach holds on
			m.drainHere(url, false)
		}
		return Scope{Cluster: true}, nil
	case !errors.Is(err, cluster.ErrDown):
		return Scope{}, err
	case on:
		m.drainHere(url, true)
	case marked || !m.drainHere(url, false): // the mark holds at all routers, this one included
		return Scope{}, fmt.Errorf("cannot end the drain of %s: %w", url, err)
	}
	return Scope{Reason: "other routers do not know of it: " + err.Error()}, nil
}

// drainHere begins or ends the drain of a worker at this router alone, and returns whether it
// drained so before.
func (m *Manager) drainHere(url string, on bool) (before bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before = m.drained[url]
	if delete(m.drained, url); on {
		m.drained[url] = true
	}
	m.reconcileNowLocked()
	return before
}

// drainNode drains all workers of a node, at all routers of the cluster.
func (m *Manager) drainNode(ctx context.Context, name string, on bool) (Scope, error) {
	node, err := m.node(name)
	if err != nil {
		return Scope{}, err
	}
	if err := m.mark(ctx, name, func(mark *cluster.Mark) { mark.Drain = on }); err != nil {
		return Scope{}, err
	}
	await(ctx, func() bool {
		for i := range node.Workers {
			url := worker.NormalURL(node.Workers[i].URL)
			if w, err := m.registry.Get(url); err == nil && w.Drains(worker.DrainSource) != on {
				return false
			}
		}
		return true
	})
	return Scope{Cluster: true}, nil
}

// node returns a node of the cluster; one that is away is known by its mark, and has no workers.
func (m *Manager) node(name string) (*cluster.Node, error) {
	if m.marker == nil {
		return nil, fmt.Errorf("cannot find node %s: %w: this router is in no cluster; name a worker by its URL", name, ErrUnknownNode)
	}
	v := m.marker.View()
	if i := slices.IndexFunc(v.Nodes, func(n cluster.Node) bool { return n.Name == name }); i >= 0 {
		return &v.Nodes[i], nil
	}
	if slices.ContainsFunc(v.Marks, func(mark cluster.Mark) bool { return mark.Target == name }) {
		return &cluster.Node{Name: name}, nil
	}
	return nil, fmt.Errorf("cannot find node %s: %w in the cluster", name, ErrUnknownNode)
}

// Cordon begins or ends the cordon of a worker or node: sources add no worker that it names, and
// those in use serve on. In a cluster it is a mark, as a drain is. A router without a cluster keeps
// it while it runs.
func (m *Manager) Cordon(ctx context.Context, target Target, on bool) (Scope, error) {
	name := target.Node
	if name != "" {
		if _, err := m.node(name); err != nil {
			return Scope{}, err
		}
	} else {
		var err error
		if name, err = m.target(target.URL); err != nil {
			return Scope{}, err
		}
	}
	if m.marker != nil {
		return Scope{Cluster: true}, m.mark(ctx, name, func(mark *cluster.Mark) { mark.Cordon = on })
	}
	m.replaceMarks(func(old map[string]cluster.Mark) map[string]cluster.Mark {
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
