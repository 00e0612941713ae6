package cluster

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// view builds a View of the table and the marks.
func (t *memberTable) view(marks map[string]Mark, up bool, at time.Time) *View {
	v := &View{Up: up, At: at}
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
	for _, target := range slices.Sorted(maps.Keys(marks)) {
		v.Marks = append(v.Marks, marks[target])
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
	view atomic.Pointer[View]

	mu     sync.Mutex
	closed bool                    // guarded by mu
	list   map[*viewWatch]struct{} // guarded by mu
}

// View returns the latest view, never nil.
func (l *views) View() *View { return l.view.Load() }

type viewWatch struct {
	news chan struct{} // holds one
	stop chan struct{}
	done chan struct{}
}

// Watch calls f with the present view and then with each new one, from one goroutine; of the
// views that come while f runs only the last is delivered. A view that differs in At alone is
// not. stop waits for f; f must not call it.
func (l *views) Watch(f func(*View)) (stop func()) {
	w := &viewWatch{news: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{})}
	w.news <- struct{}{}
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return func() {}
	}
	if l.list == nil {
		l.list = map[*viewWatch]struct{}{}
	}
	l.list[w] = struct{}{}
	l.mu.Unlock()
	go func() {
		defer close(w.done)
		for {
			select {
			case <-w.stop:
				return
			case <-w.news:
				f(l.View())
			}
		}
	}()
	return func() { l.end(w); <-w.done }
}

func (l *views) end(w *viewWatch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.list[w]; ok {
		delete(l.list, w)
		close(w.stop)
	}
}

// tell wakes all watchers.
func (l *views) tell() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for w := range l.list {
		select {
		case w.news <- struct{}{}:
		default:
		}
	}
}

// closeWatches ends all, and waits for them.
func (l *views) closeWatches() {
	l.mu.Lock()
	l.closed = true
	var ending []*viewWatch
	for w := range l.list {
		close(w.stop)
		ending = append(ending, w)
	}
	clear(l.list)
	l.mu.Unlock()
	for _, w := range ending {
		<-w.done
	}
}
