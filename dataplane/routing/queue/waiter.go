package queue

import "time"

// Waiter is a request in the queue. Its caller sets the exported fields before it enters and
// does not change them afterwards.
type Waiter struct {
	Client   uint64 // requests of one client share its turns
	Priority int    // higher first; NoPriority where the request names none
	// Patience is the longest wait; 0: Config.Timeout. A longer one makes the request patient:
	// others of its priority go first.
	Patience time.Duration
	Tokens   int    // of its prompt, or an estimate
	DP       int    // the only data-parallel rank that it may go to; AnyDP
	Branch   Branch // of its prompt; nil: it shares no beginning

	class  class
	seq    uint64
	since  time.Duration
	client *client // nil while it does not wait

	// Of the Gate.
	rank any           // key of the rank that has room for it; nil: none in particular
	out  outcome       // guarded by Gate.mu
	done chan struct{} // capacity 1: out is set
}

func (w *Waiter) fits(dp int) bool { return w.DP == AnyDP || w.DP == dp }

// outcome is the end of a request's wait.
type outcome uint8

const (
	waiting outcome = iota
	admitted
	leftGone
	leftLate
	leftDisplaced
	leftPredicted
	leftClosed
)

// end tells a waiter the outcome. done has room, so a sender never waits.
func (w *Waiter) end(o outcome) {
	w.out = o
	w.done <- struct{}{}
}
