package load

import (
	"math/bits"
	"time"
)

// Histogram counts durations in buckets at most 1/128 of their value wide. The zero value is empty.
type Histogram struct {
	counts   [buckets]uint64
	n        uint64
	sum      float64
	min, max int64
}

const (
	fineBits = 7
	fine     = 1 << fineBits
	// maxBits is the length of the longest duration in nanoseconds: 2^42 is 73 minutes. What is
	// longer counts as that.
	maxBits = 42
	buckets = (maxBits - fineBits + 1) * fine
)

// bucket returns the bucket of v: values below fine have one each, of the others the first eight
// bits count.
func bucket(v int64) int {
	if v < fine {
		return int(max(v, 0))
	}
	v = min(v, 1<<maxBits-1)
	shift := bits.Len64(uint64(v)) - fineBits - 1
	return shift*fine + int(v>>shift)
}

// upper is the largest value of a bucket.
func upper(b int) int64 {
	if b < fine {
		return int64(b)
	}
	shift := b/fine - 1
	return int64(b%fine+fine+1)<<shift - 1
}

// Add counts a duration in nanoseconds; one below zero, of clocks that disagree, counts as zero.
func (h *Histogram) Add(v int64) {
	v = max(v, 0)
	h.counts[bucket(v)]++
	if h.n == 0 || v < h.min {
		h.min = v
	}
	h.n++
	h.sum += float64(v)
	h.max = max(h.max, v)
}

// Merge adds the counts of o.
func (h *Histogram) Merge(o *Histogram) {
	if o.n == 0 {
		return
	}
	for i, n := range o.counts {
		h.counts[i] += n
	}
	if h.n == 0 || o.min < h.min {
		h.min = o.min
	}
	h.n += o.n
	h.sum += o.sum
	h.max = max(h.max, o.max)
}

// Count is how many were added.
func (h *Histogram) Count() uint64 { return h.n }

// Quantile returns a duration that the share q of all does not exceed, at most 1 % too long; 0 when
// there are none.
func (h *Histogram) Quantile(q float64) time.Duration {
	if h.n == 0 {
		return 0
	}
	rank := uint64(q*float64(h.n) + 0.5)
	rank = min(max(rank, 1), h.n)
	for b, n := range h.counts {
		if n >= rank {
			return time.Duration(min(max(upper(b), h.min), h.max))
		}
		rank -= n
	}
	return time.Duration(h.max)
}

// Times are a histogram in short, in microseconds.
type Times struct {
	N    uint64  `json:"n"`
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
}

// Times returns the histogram in short.
func (h *Histogram) Times() Times {
	if h.n == 0 {
		return Times{}
	}
	at := func(q float64) float64 { return float64(h.Quantile(q)) / 1e3 }
	return Times{
		N: h.n, Mean: h.sum / float64(h.n) / 1e3, P50: at(.5), P90: at(.9), P99: at(.99), P999: at(.999), Max: float64(h.max) / 1e3,
	}
}
