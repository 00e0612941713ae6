package sim

import (
	"slices"
	"strconv"
	"time"

	"github.com/warmpath/warmpath/bench/trace"
)

// played is the result of requests: times to the first token, and the share of tokens found.
type played struct {
	mean, p99 time.Duration
	hits      float64
}

// playedOf sums up.
func playedOf(times []time.Duration, all []*request) (p played) {
	cached, prompts := 0, 0
	for _, r := range all {
		cached, prompts = cached+r.current().cached, prompts+len(r.prompt)
	}
	slices.Sort(times)
	for _, d := range times {
		p.mean += d / time.Duration(len(times))
	}
	p.p99, p.hits = times[len(times)*99/100], float64(cached)/float64(prompts)
	return p
}

// requestOf is a recorded request with a token for each place of each block.
func requestOf(i int, from *trace.Request) *request {
	r := &request{id: strconv.Itoa(i), budget: from.Output, stop: stopRules{ignoreEOS: true}, wake: make(chan struct{}, 1)}
	for at := range from.Input {
		r.prompt = append(r.prompt, uint32(mix(from.IDs[at/from.Block]+uint64(at%from.Block))>>40)|1<<24)
	}
	r.logFrom = len(r.prompt)
	r.plan()
	return r
}
