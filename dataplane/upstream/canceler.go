package upstream

import "sync"

// aborter is a dial or a connection on which a request waits. abort must not block and must not
// call back into the Canceler.
type aborter interface{ abort() }

// Canceler ends one request from outside. It closes the connection to the worker directly, so
// no goroutine has to wait for a signal: a parked Do or Read wakes up with ErrCanceled. The
// zero value is ready. One Canceler serves one Do at a time, and the next one (a retry at
// another worker) once the Do before has failed or its Response is closed.
type Canceler struct {
	mu       sync.Mutex
	canceled bool      // guarded by mu
	target   aborter   // guarded by mu; nil while nothing is in flight
	other    *Canceler // guarded by mu; canceled with this one
}

// Cancel ends the request in flight and every later one until Reset. It never blocks on the
// network.
func (c *Canceler) Cancel() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.canceled = true
	if c.other != nil {
		c.other.Cancel()
	}
	if c.target == nil {
		return
	}
	// Under the lock: once unbind has returned, nobody can close a connection that is idle or
	// another request's by now.
	c.target.abort()
	c.target = nil
}

// Canceled reports whether Cancel was called since the last Reset.
func (c *Canceler) Canceled() bool {
	if c == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.canceled
}

// OnCancel has Cancel call f while nothing is in flight, until the next Do or OnCancel; nil
// ends it. It reports whether Cancel was not called yet: if it was, nobody calls f. f must not
// block and must not call back into the Canceler.
func (c *Canceler) OnCancel(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.target = nil
	if f != nil && !c.canceled {
		c.target = call(f)
	}
	return !c.canceled
}

// Join has Cancel cancel other too, at once if it was called already; nil ends that, and when
// Join returns nobody is canceling other through c. Cancelers must not be joined in a circle.
func (c *Canceler) Join(other *Canceler) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.other = other
	if c.canceled && other != nil {
		other.Cancel()
	}
}

// call is a target that is a function.
type call func()

func (f call) abort() { f() }

// Reset makes c ready for another request. The caller makes sure that nobody still cancels the
// previous one (ingress.Client.Release has returned).
func (c *Canceler) Reset() {
	c.mu.Lock()
	c.canceled, c.target = false, nil
	c.mu.Unlock()
}

// bind has Cancel abort t; it refuses when Cancel came first.
func (c *Canceler) bind(t aborter) error {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.canceled {
		return ErrUnsent
	}
	c.target = t
	return nil
}

// unbind forgets the target and reports whether it was aborted.
func (c *Canceler) unbind() (canceled bool) {
	if c == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.target = nil
	return c.canceled
}
