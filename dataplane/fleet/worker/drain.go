package worker

import (
	"slices"
	"sync/atomic"
)

// DrainReason is a reason for which a worker finishes its requests and gets no new one. A worker
// drains while any reason holds, so one operator cannot end the drain of another one's.
type DrainReason uint32

const (
	// DrainOperator was asked for by POST /workers/drain.
	DrainOperator DrainReason = 1 << iota
	// DrainSource comes from the worker's source: a terminating pod, a drain mark in the
	// cluster.
	DrainSource
	// DrainLeaving is a worker that no source names any more.
	DrainLeaving
)

// String names the reason as /workers shows it.
func (r DrainReason) String() string {
	return map[DrainReason]string{DrainOperator: "operator", DrainSource: "source", DrainLeaving: "leaving"}[r]
}

// drains is the set of reasons for which a worker drains.
type drains struct{ set atomic.Uint32 }

// any reports whether the worker drains.
func (d *drains) any() bool { return d.set.Load() != 0 }

// Drain sets or clears DrainOperator. Requests in flight finish.
func (d *drains) Drain(on bool) { d.DrainFor(DrainOperator, on) }

// DrainFor is Drain for any reason.
func (d *drains) DrainFor(why DrainReason, on bool) {
	if on {
		d.set.Or(uint32(why))
	} else {
		d.set.And(^uint32(why))
	}
}

// Drains reports whether the worker drains for this reason.
func (d *drains) Drains(why DrainReason) bool { return d.set.Load()&uint32(why) != 0 }

// DrainReasons returns why the worker drains, in words.
func (d *drains) DrainReasons() (why []string) {
	for _, r := range []DrainReason{DrainOperator, DrainSource, DrainLeaving} {
		if d.Drains(r) {
			why = append(why, r.String())
		}
	}
	return slices.Clip(why)
}
