package fleet

import (
	"context"

	"github.com/warmpath/warmpath/dataplane/cluster"
	"github.com/warmpath/warmpath/dataplane/fleet/discover"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

// NodeSource is the sidecar in this process as a source of workers and of their GPU health, which
// needs no cluster.
type NodeSource interface {
	discover.Source
	// Health calls set with the health of each worker when it changes, and now and then besides,
	// until ctx ends. set returns false for an unknown worker, which is then told again.
	Health(ctx context.Context, set func(url string, h cluster.Health) bool)
}

// FollowHealth gives the workers of a registry the health that the node reports, until ctx ends.
func FollowHealth(ctx context.Context, node NodeSource, get func(url string) (*worker.Worker, error)) {
	node.Health(ctx, func(url string, h cluster.Health) bool {
		w, err := get(url)
		if err != nil {
			return false // not added yet, or removed by an operator
		}
		w.SetHealth(workerHealth(&h))
		return true
	})
}
