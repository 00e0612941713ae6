package trace

import "math/bits"

// Histogram counts whole numbers, such as durations in a unit of the caller's, in buckets at most
// 1/128 of their value wide. The zero value is empty.
type Histogram struct {
	counts   []int64 // nil: nothing was added
	n        int64
	sum      float64
	min, max int64
}

const (
	fineBits = 7
	fine     = 1 << fineBits
	// maxBits is the length of the largest number; larger ones count as that.
	maxBits = 62
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

// Upper is the largest number that counts as v does.
func Upper(v int64) int64 { return upper(bucket(v)) }

// Add counts v, times times; one below zero, of clocks that disagree, counts as zero.
func (h *Histogram) Add(v, times int64) { h.AddRow(v, 0, times, 1) }

// AddRow counts length numbers from v on, each step more than the one before, times times each.
func (h *Histogram) AddRow(v, step, times, length int64) {
	for times > 0 && length > 0 {
		if h.counts == nil {
			h.counts, h.min = make([]int64, buckets), max(v, 0)
		}
		v = max(v, 0)
		same := length // of one bucket
		if step > 0 {
			same = min(length, (Upper(v)-v)/step+1)
		}
		h.counts[bucket(v)] += times * same
		h.n += times * same
		h.sum += (float64(v)*float64(same) + float64(step*(same*(same-1)/2))) * float64(times)
		h.min, h.max = min(h.min, v), max(h.max, v+(same-1)*step)
		v, length = v+same*step, length-same
	}
}

// Merge adds the counts of o.
func (h *Histogram) Merge(o *Histogram) {
	if o.n == 0 {
		return
	}
	if h.counts == nil {
		h.counts, h.min = make([]int64, buckets), o.min
	}
	for i, n := range o.counts {
		h.counts[i] += n
	}
	h.n += o.n
	h.sum += o.sum
	h.min, h.max = min(h.min, o.min), max(h.max, o.max)
}

// Count is how many were added.
func (h *Histogram) Count() int64 { return h.n }

// Mean is exact; 0 when there are none.
func (h *Histogram) Mean() float64 { return h.sum / float64(max(h.n, 1)) }

// Max is exact; 0 when there are none.
func (h *Histogram) Max() int64 { return h.max }

// Quantile returns a number that the share q of all does not exceed, at most 1 % too large; 0 when
// there are none.
func (h *Histogram) Quantile(q float64) int64 {
	rank := min(max(int64(q*float64(h.n)+0.5), 1), h.n)
	for b, n := range h.counts {
		if n >= rank {
			return min(max(upper(b), h.min), h.max)
		}
		rank -= n
	}
	return h.max
}
