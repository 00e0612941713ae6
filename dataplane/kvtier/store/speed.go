package store

import (
	"slices"
	"sync"
	"time"
)

const (
	// speedSamples are kept of each speed: their median is not moved by an engine that is stopped in the middle, or by one that lies.
	speedSamples = 15
	// leastSamples and leastSample are below what is worth a word: copies of fewer bytes measure how fast a process wakes.
	leastSamples, leastSample = 3, 256 << 10
	// news is how far a speed must be from the one that was told to be told again: each is written to the cluster's store.
	news = 1.25
)

// speed is how fast something goes, in bytes a second.
type speed struct {
	mu      sync.Mutex
	samples [speedSamples]float64 // guarded by mu, as is all below
	count   int
	told    float64
}

// add notes that so many bytes took so long.
func (s *speed) add(bytes int, took time.Duration) {
	if bytes < leastSample || took <= 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.samples[s.count%speedSamples] = float64(bytes) / took.Seconds()
	s.count++
	if s.count >= leastSamples {
		got := s.medianLocked()
		if s.told == 0 || got > s.told*news || got*news < s.told {
			s.told = got
		}
	}
}

func (s *speed) medianLocked() float64 {
	sorted := slices.Sorted(slices.Values(s.samples[:min(s.count, speedSamples)]))
	return sorted[len(sorted)/2]
}

// get is the speed; 0 is not known.
func (s *speed) get() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.told
}
