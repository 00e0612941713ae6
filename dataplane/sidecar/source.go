package sidecar

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/warmpath/warmpath/dataplane/cluster"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

// Source hands the node's workers to a router in the same process: also those that routers elsewhere could not reach, and without a cluster.
type Source struct{ node *Node }

// Source returns the node as a source of workers.
func (n *Node) Source() Source { return Source{n} }

// Name is the source's name where sources are listed.
func (Source) Name() string { return "node" }

// Run calls set with all workers of the node whenever they change, until ctx ends.
func (s Source) Run(ctx context.Context, set func([]worker.Spec)) error {
	var last []worker.Spec
	told := false
	s.node.follow(ctx, func(r *Report) {
		if !r.looked {
			return
		}
		specs := make([]worker.Spec, len(r.Workers))
		for i := range r.Workers {
			specs[i] = worker.Spec{URL: r.Workers[i].reach()}
		}
		if !told || !slices.Equal(specs, last) {
			set(specs)
			last, told = specs, true
		}
	})
	return nil
}

// reach is the URL that routers use, also the one in this process: it hears of the same worker from the cluster.
func (w *WorkerReport) reach() string { return cmp.Or(w.Public, w.URL) }

// retell is how often health that has not changed is told again: routers believe it for 30 s.
const retell = 5 * time.Second

// Health calls set with the health of each worker where it has changed, and again every few seconds where it has not, until ctx ends. Where set
// does not know the worker yet, and returns false, it is called again with the next report.
func (s Source) Health(ctx context.Context, set func(url string, h cluster.Health) bool) {
	type telling struct {
		text string
		at   time.Time
	}
	last := map[string]telling{}
	s.node.follow(ctx, func(r *Report) {
		seen := make(map[string]telling, len(r.Workers))
		for i := range r.Workers {
			w := &r.Workers[i]
			now := telling{healthText(&w.Health), r.At}
			if old := last[w.URL]; old.text == now.text && r.At.Sub(old.at) < retell {
				now = old
			} else if !set(w.reach(), w.Health) {
				continue
			}
			seen[w.URL] = now
		}
		last = seen
	})
}

// follow calls f with each report until ctx ends. Reports that come while f runs may be left out, but not the last.
func (n *Node) follow(ctx context.Context, f func(*Report)) {
	for ctx.Err() == nil {
		r := n.Report()
		f(r)
		select {
		case <-ctx.Done():
		case <-r.Next():
		}
	}
}
