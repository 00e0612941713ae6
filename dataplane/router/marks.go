package router

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/warmpath/warmpath/dataplane/admin"
	"github.com/warmpath/warmpath/dataplane/cluster"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

// marker is what the keeper needs of a cluster.
type marker interface {
	viewer
	Mark(ctx context.Context, m cluster.Mark) error
	Unmark(ctx context.Context, target string) error
}

var _ marker = (*cluster.Cluster)(nil)

const (
	// markPatience is for how long a drain waits until this router knows its own mark; it takes some milliseconds.
	markPatience = 2 * time.Second
	markLook     = 2 * time.Millisecond
	// announceEvery is how often the list of this router's own workers is told, where it has changed.
	announceEvery = time.Second
)

// followMarks hands the cluster's marks to the keeper, and tells the cluster of workers that it has not from there.
func (d *Router) followMarks(ctx context.Context) error {
	stop := d.cfg.Cluster.Watch(func(v *cluster.View) {
		if v.Up { // else the last ones hold
			d.keeper.mark(v.Marks)
		}
	})
	defer stop()
	tick := time.NewTicker(announceEvery)
	defer tick.Stop()
	var told []string
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if now := d.keeper.ownWorkers(); !slices.Equal(now, told) {
			told = now
			d.announce()
		}
	}
}

// mark takes in the marks of the cluster.
func (k *keeper) mark(list []cluster.Mark) {
	marks := make(map[string]cluster.Mark, len(list))
	for _, m := range list {
		marks[strings.TrimRight(m.Target, "/")] = m
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if !maps.Equal(marks, k.marks) {
		k.marks = marks
		k.lookLocked()
	}
}

// heedMarksLocked changes what is wished of workers by what operators want in the whole cluster. A cordon keeps a worker of a source
// out that is not used yet.
func (k *keeper) heedMarksLocked(wishes map[string]*wish) {
	for url, w := range wishes {
		m, marked := k.marks[url]
		if !marked {
			continue
		}
		w.spec.Drain = w.spec.Drain || m.Drain
		if _, own := k.own[url]; m.Cordon && !own && k.kept[url] == nil {
			delete(wishes, url)
		}
	}
}

// ownWorkers returns the workers that are not from the cluster, in order.
func (k *keeper) ownWorkers() (urls []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for url, t := range k.kept {
		_, own := k.own[url]
		if own || slices.ContainsFunc(t.feeds, func(f *feed) bool { _, shared := f.source.(*clusterSource); return !shared }) {
			urls = append(urls, url)
		}
	}
	slices.Sort(urls)
	return urls[:min(len(urls), cluster.MaxReplicaWorkers)]
}

// Drain implements admin.Fleet. In a cluster it is a mark, so that it holds at every router and outlives this one. While the
// cluster is out of reach, a worker can be drained at this router alone.
func (k *keeper) Drain(ctx context.Context, url string, on bool) (admin.DrainScope, error) {
	spec, err := worker.Spec{URL: url}.Normal()
	if err != nil {
		return admin.DrainScope{}, err
	}
	w, err := k.registry.Get(spec.URL)
	switch {
	case err != nil:
		return admin.DrainScope{}, err
	case k.marker == nil:
		w.Drain(on)
		return admin.DrainScope{}, nil
	}
	err = k.markDrain(ctx, spec.URL, on)
	switch {
	case err == nil:
		w.Drain(false) // of before, when the cluster was out of reach
		k.awaitMark(ctx, spec.URL, on)
		return admin.DrainScope{Cluster: true}, nil
	case !errors.Is(err, cluster.ErrDown):
		return admin.DrainScope{}, err
	case on:
		w.Drain(true)
	case w.Drains(worker.DrainOperator) && !k.marked(spec.URL):
		w.Drain(false)
	default: // the mark holds at all routers, this one included
		return admin.DrainScope{}, fmt.Errorf("cannot take the drain of %s back: %w", spec.URL, err)
	}
	return admin.DrainScope{Reason: "other routers do not know of it: " + err.Error()}, nil
}

// markDrain sets or takes back a worker's drain in the cluster; a cordon stays.
func (k *keeper) markDrain(ctx context.Context, url string, on bool) error {
	m, all := cluster.Mark{Target: url}, k.marker.View().Marks
	if i := slices.IndexFunc(all, func(m cluster.Mark) bool { return strings.TrimRight(m.Target, "/") == url }); i >= 0 {
		m = all[i]
	}
	if m.Drain = on; !m.Drain && !m.Cordon {
		return k.marker.Unmark(ctx, m.Target)
	}
	m.By, m.At = "operator API", time.Now().UTC()
	return k.marker.Mark(ctx, m)
}

// awaitMark returns when this router follows what was marked.
func (k *keeper) awaitMark(ctx context.Context, url string, on bool) {
	ctx, cancel := context.WithTimeout(ctx, markPatience)
	defer cancel()
	tick := time.NewTicker(markLook)
	defer tick.Stop()
	for k.marked(url) != on {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// marked reports whether the cluster drains a worker, as far as this router knows.
func (k *keeper) marked(url string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.marks[url].Drain
}
