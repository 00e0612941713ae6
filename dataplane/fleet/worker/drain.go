package worker

import (
	"slices"
	"sync/atomic"
)

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

// drains is the set of reasons for which a worker drains.
type drains struct{ set atomic.Uint32 }

// any reports whether the worker drains.
func (d *drains) any() bool { return d.set.Load() != 0 }

// Drain takes the worker out of the choice for DrainOperator, or back into it. Requests that it has are not touched.
func (d *drains) Drain(on bool) { d.DrainFor(DrainOperator, on) }

// DrainFor is Drain for any reason.
func (d *drains) DrainFor(why DrainReason, on bool) {
	if on {
		d.set.Or(uint32(why))
	} else {
		d.set.And(^uint32(why))
	}
}

// Drains reports whether somebody has this reason to drain the worker.
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
