package load

import "math/rand/v2"

// arrivals are the times at which the requests of an open loop are due.
type arrivals struct {
	random *rand.Rand // nil: at even distances
	gap    float64    // nanoseconds, on average
	next   float64    // in the loop's time
}

// newArrivals begins at start; rate is a second.
func newArrivals(start int64, rate float64, random *rand.Rand) arrivals {
	a := arrivals{random: random, gap: 1e9 / rate, next: float64(start)}
	a.step()
	return a
}

// step goes on to the next. By chance, gaps are exponential, so that arrivals are a Poisson
// process.
func (a *arrivals) step() {
	gap := a.gap
	if a.random != nil {
		gap *= a.random.ExpFloat64()
	}
	a.next += gap
}

// due returns the time of the next one.
func (a *arrivals) due() int64 { return int64(a.next) }
