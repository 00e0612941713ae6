package load

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestArrivals(t *testing.T) {
	even := newArrivals(1000, 1e6, nil)
	for i := range 5 {
		require.EqualValues(t, 1000+1000*(i+1), even.due())
		even.step()
	}
	const n, rate = 100_000, 1000.0
	a := newArrivals(0, rate, rand.New(rand.NewPCG(1, 2)))
	last, sum, squares := int64(0), 0.0, 0.0
	for range n {
		if a.due() < last {
			t.Fatalf("%d comes after %d", a.due(), last)
		}
		gap := float64(a.due()-last) / 1e9
		sum, squares, last = sum+gap, squares+gap*gap, a.due()
		a.step()
	}
	// Of a Poisson process mean and standard deviation of gaps are both 1/rate. The seed is fixed, so this holds always.
	mean := sum / n
	require.InEpsilon(t, 1/rate, mean, 0.02)
	require.InEpsilon(t, 2*mean*mean, squares/n, 0.03)
}
