package cluster

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// view builds a View of the table and the marks.
func (t *memberTable) view(marks *markSet, up bool, at time.Time) *View {
	v := &View{Up: up, At: at, revisions: maps.Clone(marks.revisions)}
	for k, m := range t.members {
		switch {
		case m.newer && k.kind == kindNode:
			v.Newer = append(v.Newer, k.name)
		case !m.shown || m.newer:
		case m.node != nil:
			v.Nodes = append(v.Nodes, *m.node)
		default:
			v.Routers = append(v.Routers, *m.rec.Router)
		}
	}
	slices.SortFunc(v.Nodes, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(v.Routers, func(a, b Router) int { return strings.Compare(a.ID, b.ID) })
	slices.Sort(v.Newer)
	for _, target := range slices.Sorted(maps.Keys(marks.list)) {
		v.Marks = append(v.Marks, marks.list[target])
	}
	return v
}

// Marked returns the drain and cordon of a worker of a node: its own mark and the node's
// together.
func (v *View) Marked(node, worker string) (drain, cordon bool) {
	for i := range v.Marks {
		if m := &v.Marks[i]; m.Target == node || m.Target == worker {
			drain, cordon = drain || m.Drain, cordon || m.Cordon
		}
	}
	return drain, cordon
}

// views publishes views to the functions that watch them.
type views struct {
	view     atomic.Pointer[View]
	watching sync.WaitGroup // Go is called under mu, while closed is false

	mu     sync.Mutex
	closed bool          // guarded by mu
	news   chan struct{} // closed by the next view; guarded by mu
}

// View returns the latest view, never nil.
func (l *views) View() *View { return l.view.Load() }

// Watch calls f with the present view and then with each new one, from one goroutine; of the
// views that come while f runs only the last is delivered. A view that differs in At alone is
// not. stop waits for f; f must not call it.
func (c *Cluster) Watch(f func(*View)) (stop func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return func() {}
	}
	ctx, cancel := context.WithCancel(c.ctx)
	done := make(chan struct{})
	c.watching.Go(func() {
		defer close(done)
		for ctx.Err() == nil {
			news := c.next()
			f(c.View())
			select {
			case <-ctx.Done():
			case <-news:
			}
		}
	})
	return func() { cancel(); <-done }
}

// next returns a channel that the next view closes.
func (l *views) next() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.news
}

// tell wakes all watchers.
func (l *views) tell() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.news)
	l.news = make(chan struct{})
}

// closeWatches waits for all watchers: their context has ended.
func (l *views) closeWatches() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.watching.Wait()
}
