package sim

import (
	"sync"
	"time"
)

// faultTimers end faults that were given a time.
type faultTimers struct {
	mu     sync.Mutex
	byKind map[string]*time.Timer // guarded by mu
}

// start calls end after d, and no longer the function given before for the same kind. A d of 0 only
// stops that one.
func (t *faultTimers) start(kind string, d time.Duration, end func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if timer := t.byKind[kind]; timer != nil {
		timer.Stop()
		delete(t.byKind, kind)
	}
	if d > 0 {
		if t.byKind == nil {
			t.byKind = make(map[string]*time.Timer)
		}
		t.byKind[kind] = time.AfterFunc(d, end)
	}
}

// stop stops all of them.
func (t *faultTimers) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, timer := range t.byKind {
		timer.Stop()
	}
	clear(t.byKind)
}
