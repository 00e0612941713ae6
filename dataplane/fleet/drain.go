package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/warmpath/warmpath/dataplane/cluster"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
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

// DrainScope says where a drain holds.
type DrainScope struct {
	Cluster bool
	Reason  string // why it does not hold in the cluster, if there is one
}

// clusterMarks are the drain and cordon marks of the cluster as this router knows them.
type clusterMarks struct {
	marker Marker // nil: there is no cluster; fixed

	byTarget map[string]cluster.Mark // guarded by Manager.mu
}

// set replaces the marks and reports whether they differ.
func (c *clusterMarks) set(list []cluster.Mark) (changed bool) {
	marks := make(map[string]cluster.Mark, len(list))
	for _, m := range list {
		marks[strings.TrimRight(m.Target, "/")] = m
	}
	changed = !maps.Equal(marks, c.byTarget)
	c.byTarget = marks
	return changed
}

// setDrain sets or clears a worker's drain in the cluster; a cordon stays.
func (c *clusterMarks) setDrain(ctx context.Context, url string, on bool) error {
	m, all := cluster.Mark{Target: url}, c.marker.View().Marks
	if i := slices.IndexFunc(all, func(m cluster.Mark) bool { return strings.TrimRight(m.Target, "/") == url }); i >= 0 {
		m = all[i]
	}
	if m.Drain = on; !m.Drain && !m.Cordon {
		return c.marker.Unmark(ctx, m.Target)
	}
	m.By, m.At = "operator API", time.Now().UTC()
	return c.marker.Mark(ctx, m)
}

// SetMarks takes over the drain and cordon marks of the cluster.
func (m *Manager) SetMarks(list []cluster.Mark) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.marks.set(list) {
		m.reconcileNowLocked()
	}
}

// marked reports whether a mark of the cluster drains the worker.
func (m *Manager) marked(url string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.marks.byTarget[url].Drain
}

// awaitMark returns when this router has applied a mark.
func (m *Manager) awaitMark(ctx context.Context, url string, on bool) {
	ctx, cancel := context.WithTimeout(ctx, markTimeout)
	defer cancel()
	tick := time.NewTicker(markInterval)
	defer tick.Stop()
	for m.marked(url) != on {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Drain drains a worker, or ends that. In a cluster it sets a mark, which holds at every router and
// outlives this one. Without a connection to the cluster a worker can only be drained at this
// router.
func (m *Manager) Drain(ctx context.Context, url string, on bool) (DrainScope, error) {
	spec, err := worker.Spec{URL: url}.Normal()
	if err != nil {
		return DrainScope{}, err
	}
	w, err := m.registry.Get(spec.URL)
	switch {
	case err != nil:
		return DrainScope{}, err
	case m.marks.marker == nil:
		w.Drain(on)
		return DrainScope{}, nil
	}
	err = m.marks.setDrain(ctx, spec.URL, on)
	switch {
	case err == nil:
		w.Drain(false) // set while the cluster was out of reach
		m.awaitMark(ctx, spec.URL, on)
		return DrainScope{Cluster: true}, nil
	case !errors.Is(err, cluster.ErrDown):
		return DrainScope{}, err
	case on:
		w.Drain(true)
	case w.Drains(worker.DrainOperator) && !m.marked(spec.URL):
		w.Drain(false)
	default: // the mark holds at all routers, this one included
		return DrainScope{}, fmt.Errorf("cannot end the drain of %s: %w", spec.URL, err)
	}
	return DrainScope{Reason: "other routers do not know of it: " + err.Error()}, nil
}
