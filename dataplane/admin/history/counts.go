package history

import (
	"math"
	"slices"
)

// Kind is a kind of request that got no good answer.
type Kind int

// Kinds, in the order of Counts.Errors.
const (
	Busy   Kind = iota // refused with 429
	Keys               // refused for its key: 401 and 403
	Client             // other mistakes of clients: 4xx
	Worker             // 5xx that a worker answered
	Router             // 5xx of the router's own: no worker, a timeout, a broken connection
	Cut                // a worker broke its answer off
	kinds
)

// Errors counts requests without a good answer by kind.
type Errors [kinds]uint64

// Counts are the router's counts since its start, with the state of the moment.
type Counts struct {
	Requests, PromptTokens, HitTokens, ExpectedTokens, GeneratedTokens uint64

	Errors Errors
	// Prefill time that cached tokens saved at the measured speeds of their ranks.
	SavedSeconds        float64
	TTFT, Duration, ITL Histogram

	InFlight, Waiting  int64
	Workers, ReadyOnes int64
}

// Histogram counts observations by bucket. Buckets has one more than Bounds: it is of all beyond
// the last.
type Histogram struct {
	Bounds  []float64
	Buckets []uint64
}

// since returns the observations after an earlier reading. A reading with less is of a new start.
func (h Histogram) since(before Histogram) Histogram {
	out := Histogram{h.Bounds, slices.Clone(h.Buckets)}
	for i := range min(len(out.Buckets), len(before.Buckets)) {
		out.Buckets[i] = increase(out.Buckets[i], before.Buckets[i])
	}
	return out
}

// quantile interpolates within the bucket, as Prometheus does: NaN without observations, and the
// last bound for one beyond it.
func (h Histogram) quantile(q float64) float64 {
	total := uint64(0)
	for _, n := range h.Buckets {
		total += n
	}
	if total == 0 {
		return math.NaN()
	}
	rank, below, from := q*float64(total), 0.0, 0.0
	for i, bound := range h.Bounds {
		n := float64(h.Buckets[i])
		if below+n >= rank && n > 0 {
			return from + (bound-from)*max(rank-below, 0)/n
		}
		below, from = below+n, bound
	}
	return from
}

// increase is 0 where a count fell: the series of a removed worker is gone from its sum.
func increase(now, before uint64) uint64 {
	if now < before {
		return 0
	}
	return now - before
}
