package worker

import "sync"

// unanswered are the requests at a worker without a first byte. They may leave when the worker
// hangs or dies.
type unanswered struct {
	mu    sync.Mutex
	slots []waiting // guarded by mu, as is all below
	free  []uint32  // slots without a request
}

// waiting is a slot for a request. A request costs no allocation and no look-up by a hash.
type waiting struct {
	life  uint32 // of the slot, in the keys of its requests
	leave func(dead bool) bool
}

// Await registers leave, which is called when the worker is found dead, and after each probe
// while it hangs. The request path registers a request until its answer begins, so that it can
// be sent elsewhere; Begun ends that for the returned key. leave cancels the request and returns
// true, or keeps it: a request with nowhere else to go may still get its answer from a hanging
// worker. It is called under the worker's lock: it must not block and not call back.
func (w *Worker) Await(leave func(dead bool) bool) (key uint64) { return w.waiting.await(leave) }

// Begun ends the registration of Await.
func (w *Worker) Begun(key uint64) { w.waiting.begun(key) }

func (u *unanswered) await(leave func(dead bool) bool) (key uint64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.free) == 0 {
		u.slots = append(u.slots, waiting{})
		u.free = append(u.free, uint32(len(u.slots)-1))
	}
	at := u.free[len(u.free)-1]
	u.free = u.free[:len(u.free)-1]
	w := &u.slots[at]
	w.life++
	w.leave = leave
	return uint64(w.life)<<32 | uint64(at)
}

func (u *unanswered) begun(key uint64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	at := uint32(key)
	if int(at) < len(u.slots) && u.slots[at].life == uint32(key>>32) {
		u.endLocked(at)
	}
}

// endLocked frees a slot, unless that was done before.
func (u *unanswered) endLocked(at uint32) {
	if w := &u.slots[at]; w.leave != nil {
		w.leave = nil
		u.free = append(u.free, at)
	}
}

// giveUp calls leave for every request without a first byte; requests that stay are asked again
// the next time. It holds the lock: after Begun has returned, the request's memory serves
// another one and must not be canceled.
func (u *unanswered) giveUp(dead bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for at := range u.slots {
		if leave := u.slots[at].leave; leave != nil && leave(dead) {
			u.endLocked(uint32(at))
		}
	}
}
