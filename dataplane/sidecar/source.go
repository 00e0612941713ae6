package sidecar

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/warmpath/warmpath/dataplane/cluster"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

// Source gives the node's workers to a router in the same process, also those that other routers
// cannot reach. It needs no cluster.
type Source struct{ sidecar *Sidecar }

// Source returns the sidecar as a source of workers.
func (s *Sidecar) Source() Source { return Source{s} }

// Name returns the name of the source in lists of sources.
func (Source) Name() string { return "node" }

// Run calls set with all workers of the node whenever they change, until ctx ends.
func (s Source) Run(ctx context.Context, set func([]worker.Spec)) error {
	var last []worker.Spec
	told := false
	s.follow(ctx, func(r *Report) {
		if !r.scanned {
			return
		}
		specs := make([]worker.Spec, len(r.Workers))
		for i := range r.Workers {
			specs[i] = worker.Spec{URL: r.Workers[i].routerURL()}
		}
		if !told || !slices.Equal(specs, last) {
			set(specs)
			last, told = specs, true
		}
	})
	return nil
}

// routerURL returns the URL that other routers use too, as the cluster's record names it.
func (w *WorkerReport) routerURL() string { return cmp.Or(w.Public, w.URL) }

// healthRepeat is the interval of equal health: routers believe it for 30 s.
const healthRepeat = 5 * time.Second

// Health calls set with the health of each worker when it changes, and every few seconds besides,
// until ctx ends. set returns false for an unknown worker, and is called again with the next
// report.
func (s Source) Health(ctx context.Context, set func(url string, h cluster.Health) bool) {
	type sent struct {
		key string
		at  time.Time
	}
	last := map[string]sent{}
	s.follow(ctx, func(r *Report) {
		seen := make(map[string]sent, len(r.Workers))
		for i := range r.Workers {
			w := &r.Workers[i]
			now := sent{healthKey(&w.Health), r.At}
			if old := last[w.URL]; old.key == now.key && r.At.Sub(old.at) < healthRepeat {
				now = old
			} else if !set(w.routerURL(), w.Health) {
				continue
			}
			seen[w.URL] = now
		}
		last = seen
	})
}

// follow calls f with reports until ctx ends. It skips reports that come while f runs, except the
// last.
func (s Source) follow(ctx context.Context, f func(*Report)) {
	for ctx.Err() == nil {
		r := s.sidecar.Report()
		f(r)
		select {
		case <-ctx.Done():
		case <-r.Next():
		}
	}
}
