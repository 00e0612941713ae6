package worker

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// speedsEvery is how often the ranks' speeds are compared: they are means over minutes.
const speedsEvery = time.Second

// speeds compares the speeds of ranks that serve one model in one role.
type speeds struct {
	due atomic.Int64 // unix nanoseconds of the next comparison
	mu  sync.Mutex   // one comparison at a time
}

type speedGroup struct {
	model string
	role  Role
}

// compare gives each rank the median speed of the others, at most once a speedsEvery. Any
// monitor may call it.
func (s *speeds) compare(now time.Time, snap *Snapshot) {
	due := s.due.Load()
	if now.UnixNano() < due || !s.due.CompareAndSwap(due, now.Add(speedsEvery).UnixNano()) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	type proved struct {
		rank  *Rank
		speed float64
	}
	groups := make(map[speedGroup][]proved)
	for _, rank := range snap.Ranks {
		if info := rank.Worker.Info(); info != nil {
			g := speedGroup{info.Model(), info.Role()}
			groups[g] = append(groups[g], proved{rank, rank.Load.OwnSpeed()})
		}
	}
	for _, all := range groups {
		sorted := make([]float64, 0, len(all))
		for _, p := range all {
			if p.speed > 0 {
				sorted = append(sorted, p.speed)
			}
		}
		slices.Sort(sorted)
		for _, p := range all {
			p.rank.Load.SetSimilarSpeed(now, medianWithout(sorted, p.speed))
		}
	}
}

// medianWithout returns the lower median of sorted without one element of that value; a speed of 0
// is no element. 0: none is left.
func medianWithout(sorted []float64, own float64) float64 {
	n := len(sorted)
	if own > 0 {
		n--
	}
	if n <= 0 {
		return 0
	}
	i := (n - 1) / 2
	if own > 0 && sorted[i] >= own { // it stands at i or before
		i++
	}
	return sorted[i]
}
