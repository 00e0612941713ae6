package worker

import "sync"

// unanswered are the requests at a worker whose answers have not begun, which may leave when it
// hangs or dies.
type unanswered struct {
	mu      sync.Mutex
	nextKey uint64
	leave   map[uint64]func(dead bool) bool // guarded by mu
}

// Await registers leave to be called when the worker is found hanging, again after each probe for as long as it hangs, and
// when it is found dead. The request path registers a request until its answer begins, so that it can be sent elsewhere; the
// returned key ends that with Begun. leave cancels the request and reports so, or leaves it where it is: of a worker that only
// hangs, one with nowhere else to go may get its answer yet. It is called under the worker's lock: it must not block and not
// call back.
func (u *unanswered) Await(leave func(dead bool) bool) (key uint64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.nextKey++
	u.leave[u.nextKey] = leave
	return u.nextKey
}

// Begun ends what Await began.
func (u *unanswered) Begun(key uint64) {
	u.mu.Lock()
	delete(u.leave, key)
	u.mu.Unlock()
}

// giveUp has every request whose answer has not begun leave, if it can; those that could not are asked again the next time. It
// does so under the lock: once Begun has returned, the request's memory serves another one and must not be canceled any
// more.
func (u *unanswered) giveUp(dead bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for key, leave := range u.leave {
		if leave(dead) {
			delete(u.leave, key)
		}
	}
}
