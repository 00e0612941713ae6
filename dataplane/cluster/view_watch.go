package cluster

import (
	"sync"
	"sync/atomic"
)

// views publishes views to the functions that watch them.
type views struct {
	view atomic.Pointer[View]

	mu     sync.Mutex
	closed bool                    // guarded by mu
	list   map[*viewWatch]struct{} // guarded by mu
}

// View returns what is known now; never nil.
func (l *views) View() *View { return l.view.Load() }

type viewWatch struct {
	news chan struct{} // holds one
	stop chan struct{}
	done chan struct{}
}

// Watch calls f with the present view and then with each new one, from one goroutine; views that come while f runs are left out
// but for the last. Views that differ in At alone are not told. stop waits for f; f must not call it.
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

// tell wakes all.
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

// close ends all, and waits for them.
func (l *views) close() {
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
