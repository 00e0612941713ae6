package store

import (
	"slices"
	"sync"
	"time"
)

const (
	// rateSamples bounds the samples of a rate: their median resists a stopped or lying engine.
	rateSamples = 15
	// minSamples and minSample exclude noise: copies of fewer bytes measure how fast a process
	// wakes.
	minSamples, minSample = 3, 256 << 10
	// rateStep is the factor between two reported rates: each is written to the cluster's store.
	rateStep = 1.25
)

// rate is a measured throughput in bytes a second.
type rate struct {
	mu       sync.Mutex
	samples  [rateSamples]float64 // guarded by mu, as is all below
	count    int
	reported float64
}

// add takes a sample.
func (r *rate) add(bytes int, took time.Duration) {
	if bytes < minSample || took <= 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.samples[r.count%rateSamples] = float64(bytes) / took.Seconds()
	r.count++
	if r.count < minSamples {
		return
	}
	sorted := slices.Sorted(slices.Values(r.samples[:min(r.count, rateSamples)]))
	median := sorted[len(sorted)/2]
	if r.reported == 0 || median > r.reported*rateStep || median*rateStep < r.reported {
		r.reported = median
	}
}

// get returns the rate; 0 is unknown.
func (r *rate) get() float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reported
}
