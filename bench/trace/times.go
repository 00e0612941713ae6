package trace

import (
	"slices"
	"time"
)

// Times sums up a distribution.
type Times struct {
	Mean time.Duration `json:"mean"`
	P50  time.Duration `json:"p50"`
	P90  time.Duration `json:"p90"`
	P95  time.Duration `json:"p95"`
	P99  time.Duration `json:"p99"`
	Max  time.Duration `json:"max"`
}

// TimesOf sorts all and takes nearest ranks: the smallest value that at least so many of 100 values
// do not exceed.
func TimesOf(all []time.Duration) Times {
	if len(all) == 0 {
		return Times{}
	}
	slices.Sort(all)
	var sum float64
	for _, d := range all {
		sum += float64(d)
	}
	at := func(p int) time.Duration { return all[max(1, (len(all)*p+99)/100)-1] }
	return Times{Mean: time.Duration(sum / float64(len(all))), P50: at(50), P90: at(90), P95: at(95), P99: at(99), Max: all[len(all)-1]}
}
