package fleet

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/warmpath/warmpath/dataplane/cluster"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

const (
	// announceInterval is the time between two comparisons of this router's own workers with the
	// announced ones.
	announceInterval = time.Second
	// awaitInterval is the time between two looks at the workers of the cluster at the start.
	awaitInterval = 10 * time.Millisecond
)

// Membership is a router's part in a cluster: it applies the cluster's drain and cordon marks and
// keeps the router's record.
type Membership struct {
	cluster  *cluster.Cluster
	manager  *Manager
	registry *worker.Registry
	self     cluster.Replica
	log      *slog.Logger
}

// NewMembership returns the membership of the router that self describes; its ID and Workers are
// filled in.
func NewMembership(c *cluster.Cluster, m *Manager, self cluster.Replica, log *slog.Logger) *Membership {
	self.ID = c.Instance()
	return &Membership{cluster: c, manager: m, registry: m.registry, self: self, log: log}
}

// Run works until ctx ends. The manager must have started.
func (m *Membership) Run(ctx context.Context) error {
	stop := m.cluster.Watch(func(v *cluster.View) {
		if v.Up { // else the last marks hold
			m.manager.SetMarks(v.Marks)
		}
	})
	defer stop()
	announced := m.manager.LocalWorkers()
	m.announce(announced)
	tick := time.NewTicker(announceInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if now := m.manager.LocalWorkers(); !slices.Equal(now, announced) {
			announced = now
			m.announce(announced)
		}
	}
}

// announce writes the router's record; workers are the ones that the cluster does not name.
func (m *Membership) announce(workers []string) {
	self := m.self
	self.Workers = workers
	if err := m.cluster.AnnounceReplica(self); err != nil {
		m.log.Warn("cannot announce this router to the cluster", "error", err)
	}
}

// Await returns when the workers that the cluster names have answered a probe or failed it, at the
// latest after timeout.
func (m *Membership) Await(ctx context.Context, timeout time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := m.cluster.WaitUp(ctx); err != nil {
		m.log.Warn("the cluster is not known yet: serving without its workers", "error", err)
		return
	}
	m.manager.SetMarks(m.cluster.View().Marks)
	tick := time.NewTicker(awaitInterval)
	defer tick.Stop()
	for !m.probed() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// probed reports whether the workers of the cluster, if there are any, are in the registry and
// every worker there has answered a probe or failed it.
func (m *Membership) probed() bool {
	named := slices.ContainsFunc(m.cluster.View().Nodes, func(n cluster.Node) bool { return len(n.Workers) > 0 })
	known := m.registry.Snapshot().Workers
	if named && len(known) == 0 {
		return false
	}
	return !slices.ContainsFunc(known, func(w *worker.Worker) bool { return w.State() == worker.Probing })
}
