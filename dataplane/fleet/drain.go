package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
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

// drainer drains workers for operators: by the marks of a cluster, or at this router alone.
type drainer struct {
	registry *worker.Registry
	marker   Marker // nil: there is no cluster
	changed  func() // applies new marks

	marksMu sync.Mutex
	marks   map[string]cluster.Mark // by target; replaced, never changed; guarded by marksMu
	applied map[string]cluster.Mark // as of the last call of changed; guarded by marksMu
}

// SetMarks takes over the drain and cordon marks of the cluster.
func (d *drainer) SetMarks(list []cluster.Mark) {
	marks := make(map[string]cluster.Mark, len(list))
	for _, m := range list {
		marks[strings.TrimRight(m.Target, "/")] = m
	}
	d.marksMu.Lock()
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

// marked reports whether an applied mark of the cluster drains the worker.
func (d *drainer) marked(url string) bool {
	d.marksMu.Lock()
	defer d.marksMu.Unlock()
	return d.applied[url].Drain
}

// setDrain sets or clears a worker's drain in the cluster; a cordon stays.
func (d *drainer) setDrain(ctx context.Context, url string, on bool) error {
	m, all := cluster.Mark{Target: url}, d.marker.View().Marks
	if i := slices.IndexFunc(all, func(m cluster.Mark) bool { return strings.TrimRight(m.Target, "/") == url }); i >= 0 {
		m = all[i]
	}
	if m.Drain = on; !m.Drain && !m.Cordon {
		return d.marker.Unmark(ctx, m.Target)
	}
	m.By, m.At = "operator API", time.Now().UTC()
	return d.marker.Mark(ctx, m)
}

// awaitMark returns when this router has applied a mark.
func (d *drainer) awaitMark(ctx context.Context, url string, on bool) {
	ctx, cancel := context.WithTimeout(ctx, markTimeout)
	defer cancel()
	tick := time.NewTicker(markInterval)
	defer tick.Stop()
	for d.marked(url) != on {
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
func (d *drainer) Drain(ctx context.Context, url string, on bool) (DrainScope, error) {
	spec, err := worker.Spec{URL: url}.Normal()
	if err != nil {
		return DrainScope{}, err
	}
	w, err := d.registry.Get(spec.URL)
	switch {
	case err != nil:
		return DrainScope{}, err
	case d.marker == nil:
		w.Drain(on)
		return DrainScope{}, nil
	}
	err = d.setDrain(ctx, spec.URL, on)
	switch {
	case err == nil:
		w.Drain(false) // set while the cluster was out of reach
		d.awaitMark(ctx, spec.URL, on)
		return DrainScope{Cluster: true}, nil
	case !errors.Is(err, cluster.ErrDown):
		return DrainScope{}, err
	case on:
		w.Drain(true)
	case w.Drains(worker.DrainOperator) && !d.marked(spec.URL):
		w.Drain(false)
	default: // the mark holds at all routers, this one included
		return DrainScope{}, fmt.Errorf("cannot end the drain of %s: %w", spec.URL, err)
	}
	return DrainScope{Reason: "other routers do not know of it: " + err.Error()}, nil
}
