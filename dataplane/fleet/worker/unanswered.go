package worker

import "sync"

// unanswered are the requests at a worker whose answers have not begun. They may leave when the
// worker hangs or dies.
type unanswered struct {
	mu      sync.Mutex
	nextKey uint64
	leave   map[uint64]func(dead bool) bool // guarded by mu
}

// Await registers leave, which is called when the worker is found dead, and after each probe
// while it hangs. The request path registers a request until its answer begins, so that it can
// be sent elsewhere; Begun ends that for the returned key. leave cancels the request and returns
// true, or keeps it: a request with nowhere else to go may still get its answer from a hanging
// worker. It is called under the worker's lock: it must not block and not call back.
func (u *unanswered) Await(leave func(dead bool) bool) (key uint64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.nextKey++
	u.leave[u.nextKey] = leave
	return u.nextKey
}

// Begun ends the registration of Await.
func (u *unanswered) Begun(key uint64) {
	u.mu.Lock()
	delete(u.leave, key)
	u.mu.Unlock()
}

// giveUp calls leave for every request whose answer has not begun; requests that stay are asked
// again the next time. It holds the lock: after Begun has returned, the request's memory serves
// another one and must not be canceled.
func (u *unanswered) giveUp(dead bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for key, leave := range u.leave {
		if leave(dead) {
			delete(u.leave, key)
		}
	}
}
