package cluster

import "sync"

// watches are the functions that are told of views.
type watches struct {
	mu     sync.Mutex
	closed bool                   // guarded by mu
	list   map[*watchOne]struct{} // guarded by mu
}

type watchOne struct {
	news chan struct{} // holds one
	stop chan struct{}
	done chan struct{}
}

// Watch calls f with the present view and then with each new one, from one goroutine; views that come while f runs are left out
// but for the last. Views that differ in At alone are not told. stop waits for f; f must not call it.
func (c *Cluster) Watch(f func(*View)) (stop func()) {
	w := &watchOne{news: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{})}
	w.news <- struct{}{}
	c.watches.mu.Lock()
	if c.watches.closed {
		c.watches.mu.Unlock()
		return func() {}
	}
	if c.watches.list == nil {
		c.watches.list = map[*watchOne]struct{}{}
	}
	c.watches.list[w] = struct{}{}
	c.watches.mu.Unlock()
	go func() {
		defer close(w.done)
		for {
			select {
			case <-w.stop:
				return
			case <-w.news:
				f(c.View())
			}
		}
	}()
	return func() { c.watches.end(w); <-w.done }
}

func (l *watches) end(w *watchOne) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.list[w]; ok {
		delete(l.list, w)
		close(w.stop)
	}
}

// tell wakes all.
func (l *watches) tell() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for w := range l.list {
		select {
		case w.news <- struct{}{}:
		default:
		}
	}
}

// close ends all, and waits for them.
func (l *watches) close() {
	l.mu.Lock()
	l.closed = true
	var ending []*watchOne
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
