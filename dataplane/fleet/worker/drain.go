package worker

import "slices"

// DrainReason says who wants that a worker finishes what it has and gets nothing new. It drains as long as anybody does, so
// nobody takes back what another one asked for.
type DrainReason uint32

const (
	// DrainOperator was asked for by POST /workers/drain.
	DrainOperator DrainReason = 1 << iota
	// DrainSource was asked for by where the worker is from: a pod that ends, a mark in the cluster.
	DrainSource
	// DrainLeaving is a worker that no source names any more.
	DrainLeaving
)

// String names the reason as /workers shows it.
func (r DrainReason) String() string {
	return map[DrainReason]string{DrainOperator: "operator", DrainSource: "source", DrainLeaving: "leaving"}[r]
}

// Drain takes the worker out of the choice for DrainOperator, or back into it. Requests that it has are not touched.
func (w *Worker) Drain(on bool) { w.DrainFor(DrainOperator, on) }

// DrainFor is Drain for any reason.
func (w *Worker) DrainFor(why DrainReason, on bool) {
	if on {
		w.drains.Or(uint32(why))
	} else {
		w.drains.And(^uint32(why))
	}
}

// Drains reports whether somebody has this reason to drain the worker.
func (w *Worker) Drains(why DrainReason) bool { return w.drains.Load()&uint32(why) != 0 }

// DrainReasons returns why the worker drains, in words.
func (w *Worker) DrainReasons() (why []string) {
	for _, r := range []DrainReason{DrainOperator, DrainSource, DrainLeaving} {
		if w.Drains(r) {
			why = append(why, r.String())
		}
	}
	return slices.Clip(why)
}

// Probed returns what the probes say, whoever wants the worker drained.
func (w *Worker) Probed() State { return State(w.state.Load()) }

// Spec returns what is known of the worker from outside.
func (w *Worker) Spec() Spec { return *w.spec.Load() }

// InFlight returns the requests that this router has sent to the worker and that have not ended.
func (w *Worker) InFlight() (n int64) {
	for _, r := range w.Ranks() {
		n += r.Load.InFlight()
	}
	return n
}
