package proxy

import (
	"errors"
	"fmt"
	"slices"
)

// Growth is how a quantity went from one rest to the next.
type Growth struct {
	What string `json:"what"`
	// The level at the second rest; the round before fills bounded caches.
	From  float64 `json:"from"`
	Added float64 `json:"added"`        // from there to the last rest, by the median of all slopes
	Each  float64 `json:"per_thousand"` // requests
	Grows bool    `json:"grows"`        // more than the slack
}

// Growth of a router from rest to rest that counts as noise. Resident memory varies by some MiB
// with the layout of objects, the live heap by less with the fill of caches whose size is not
// reported. Descriptors, threads and goroutines hardly vary.
const (
	memorySlack     = 12 << 20
	heapSlack       = 2 << 20
	descriptorSlack = 4
	threadSlack     = 4
	goroutineSlack  = 8
)

// judge names growing resources and failures.
func (s *Soak) judge() error {
	s.Growth = []Growth{
		growth("memory", s.Rests, memorySlack, func(x Sample) float64 { return float64(x.RSS) }),
		growth("descriptors", s.Rests, descriptorSlack, func(x Sample) float64 { return float64(x.Descriptors) }),
		growth("threads", s.Rests, threadSlack, func(x Sample) float64 { return float64(x.Threads) }),
	}
	// Only routers in Go report these; the live heap counts only after a collection since the last
	// request.
	if !slices.ContainsFunc(s.Rests, func(x Sample) bool { return x.Goroutines == 0 }) {
		s.Growth = append(s.Growth, growth("goroutines", s.Rests, goroutineSlack, func(x Sample) float64 { return float64(x.Goroutines) }))
	}
	if !slices.ContainsFunc(s.Rests, func(x Sample) bool { return x.Heap == 0 }) {
		s.Growth = append(s.Growth, growth("heap", s.Rests, heapSlack, func(x Sample) float64 { return float64(x.Heap - x.Bounded) }))
	}
	s.Verdict = Steady
	var err error
	for _, g := range s.Growth {
		if g.Grows {
			s.Verdict = Grows
			err = errors.Join(err, fmt.Errorf("%w: %s grew by %.0f from %.0f, %.1f each 1,000 requests", ErrFailed, g.What, g.Added, g.From, g.Each))
		}
	}
	for _, r := range s.Runs {
		if failed := (&Measurement{Result: *r}).Err(); failed != nil {
			s.Verdict = Errors
			err = errors.Join(err, failed)
		}
	}
	return err
}

// growth fits a line to a quantity at all rests but the first, by the median of the slopes between
// any two of them (Theil and Sen), which a single outlier does not move, and says whether it adds
// more than slack from the second rest to the last.
func growth(what string, rests []Sample, slack float64, of func(Sample) float64) Growth {
	g := Growth{What: what}
	if len(rests) < 3 {
		return g
	}
	late := rests[1:]
	var slopes []float64
	for i, a := range late {
		for _, b := range late[i+1:] {
			if b.Requests > a.Requests {
				slopes = append(slopes, (of(b)-of(a))/float64(b.Requests-a.Requests))
			}
		}
	}
	if len(slopes) == 0 {
		return g
	}
	slope := median(slopes)
	g.From, g.Each = of(late[0]), 1000*slope
	g.Added = slope * float64(late[len(late)-1].Requests-late[0].Requests)
	g.Grows = g.Added > slack
	return g
}
