package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// Cluster is something to replay to.
type Cluster interface {
	URL() string  // base URL of its router
	Close() error // returns when all of it has ended
}

// Start brings up a fresh cluster with a policy, ready for requests.
type Start func(ctx context.Context, policy string) (Cluster, error)

// Compare replays a trace once for each policy, every time to a fresh cluster. open gives the
// trace from its beginning; a source that is an io.Closer is closed after its replay. The
// results that there are come with an error too.
func Compare(ctx context.Context, policies []string, start Start, open func() (Source, error), cfg Config) ([]*Result, error) {
	var results []*Result
	for _, policy := range policies {
		result, err := one(ctx, policy, start, open, cfg)
		if result != nil {
			result.Policy = policy
			results = append(results, result)
		}
		if err != nil {
			return results, fmt.Errorf("cannot replay with policy %s: %w", policy, err)
		}
	}
	return results, nil
}

func one(ctx context.Context, policy string, start Start, open func() (Source, error), cfg Config) (result *Result, err error) {
	source, err := open()
	if err != nil {
		return nil, err
	}
	if c, ok := source.(io.Closer); ok {
		defer c.Close()
	}
	return Against(ctx, policy, start, func(url string) (*Result, error) { return Run(ctx, url, source, cfg) })
}

// Against starts a cluster with a policy, measures it and closes it.
func Against(ctx context.Context, policy string, start Start, measure func(url string) (*Result, error)) (result *Result, err error) {
	cluster, err := start(ctx, policy)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	if result, err = measure(cluster.URL()); result != nil {
		result.Policy = policy
	}
	return result, err
}
