package trace

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestHistogramAgainstSorting holds quantiles to those of the values themselves: never below, at most 1 % above.
func TestHistogramAgainstSorting(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 2, 100, 10_000} {
		var a, b Histogram
		var all []int64
		for i := range n {
			v := int64(r.ExpFloat64() * float64(int64(1)<<r.IntN(35)))
			all = append(all, v)
			if i%2 == 0 {
				a.Add(v, 1)
			} else {
				b.Add(v, 1)
			}
		}
		a.Merge(&b)
		slices.Sort(all)
		require.EqualValues(t, n, a.Count())
		for _, q := range []float64{0.001, 0.1, 0.5, 0.9, 0.99, 0.999, 1} {
			want := all[min(max(int(q*float64(n)+0.5), 1), n)-1]
			got := a.Quantile(q)
			require.GreaterOrEqual(t, got, want, "quantile %v of %d", q, n)
			require.LessOrEqual(t, float64(got), float64(want)*1.01+1, "quantile %v of %d", q, n)
		}
		require.Equal(t, all[n-1], a.Quantile(1))
		require.Equal(t, all[n-1], a.Max())
	}
}

// TestBuckets holds that buckets follow each other without gaps, and are as narrow as they are said to be.
func TestBuckets(t *testing.T) {
	last := int64(-1)
	for b := range buckets {
		low, high := last+1, upper(b)
		require.Equal(t, b, bucket(low), "bucket of %d", low)
		require.Equal(t, b, bucket(high), "bucket of %d", high)
		require.LessOrEqual(t, high-low, max(0, low/fine), "width of bucket %d", b)
		last = high
	}
	require.Equal(t, buckets-1, bucket(1<<62), "what is too long is in the last one")
}

func TestHistogramOfNothing(t *testing.T) {
	var h, o Histogram
	h.Merge(&o)
	require.Zero(t, h.Quantile(0.5))
	require.Zero(t, h.Mean())
	h.Add(-5, 1)
	require.Zero(t, h.Quantile(0.5))
	require.EqualValues(t, 1, h.Count())
}
