package policies

import (
	"math"
	"time"
)

// Service says how long work takes on one worker; the zero value of a field stands for its
// default. The formula and the defaults are those of the simulated workers of this project
// (package sim), one node of 8 H100 with a dense model of 70 billion parameters, so that a
// trace replayed against them and a simulation of it can be compared:
//
//	prefill batch of n new tokens:               PrefillBase + n / PrefillTokensPerSecond + host tokens / HostTokensPerSecond
//	decode step of b requests and c tokens:      DecodeBase + b·DecodePerRequest + c·DecodePerToken
type Service struct {
	PrefillTokensPerSecond float64       // default 16,000
	PrefillBase            time.Duration // of every prefill batch; default 8 ms
	ChunkedPrefill         int           // most new tokens of one prefill batch; default 8,192
	DecodeBase             time.Duration // of every decode step; default 14 ms
	DecodePerRequest       time.Duration // default 60 µs
	DecodePerToken         time.Duration // for each token of context in the batch; default 17 ns
	// HostTokensPerSecond is the speed of pages from host memory. The default, 150,000, is 320
	// KB a token at 48 GB/s, the throughput of one PCIe 5 link of 64 GB/s.
	HostTokensPerSecond float64
	MaxRunning          int // largest running batch; default 64
}

func (s Service) withDefaults() Service {
	or(&s.PrefillTokensPerSecond, 16_000)
	or(&s.PrefillBase, 8*time.Millisecond)
	or(&s.ChunkedPrefill, 8_192)
	or(&s.DecodeBase, 14*time.Millisecond)
	or(&s.DecodePerRequest, 60*time.Microsecond)
	or(&s.DecodePerToken, 17*time.Nanosecond)
	or(&s.HostTokensPerSecond, 150_000)
	or(&s.MaxRunning, 64)
	return s
}

func or[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// costs are a Service in ticks, for a worker of some speed.
type costs struct {
	prefillBase, prefillToken, hostToken clock
	decodeBase, decodeRequest            clock
	decodeToken                          clock
	chunk, running                       int
	rate                                 float64 // prefill tokens a second
}

func (s Service) at(speed float64) costs {
	scale := func(c float64) clock { return clock(math.Round(c / speed)) }
	return costs{
		prefillBase: scale(float64(ticks(s.PrefillBase))), prefillToken: scale(float64(second) / s.PrefillTokensPerSecond),
		hostToken:  clock(math.Round(float64(second) / s.HostTokensPerSecond)),
		decodeBase: scale(float64(ticks(s.DecodeBase))), decodeRequest: scale(float64(ticks(s.DecodePerRequest))),
		decodeToken: scale(float64(ticks(s.DecodePerToken))),
		chunk:       s.ChunkedPrefill, running: s.MaxRunning,
		rate: s.PrefillTokensPerSecond * speed,
	}
}

// prefill is the time of a batch.
func (c *costs) prefill(tokens, host int) clock {
	return c.prefillBase + clock(tokens)*c.prefillToken + clock(host)*c.hostToken
}

// decode is the time of the first steps decode steps of a batch that begins with context
// tokens: each step adds one token to every request's context before it reads it.
func (c *costs) decode(requests int, context int64, steps int) clock {
	k, b := clock(steps), clock(requests)
	first := c.decodeBase + b*c.decodeRequest + clock(context)*c.decodeToken
	return k*first + b*c.decodeToken*(k*(k-1)/2)
}

// pace is the time of the first of some decode steps, and how much longer each further one is.
type pace struct{ first, more clock }

func (c *costs) pace(requests int, context int64) pace {
	return pace{first: c.decode(requests, context, 1), more: clock(requests) * c.decodeToken}
}

// stepsBy is the fewest steps, at least one and at most most, that last until elapsed or
// longer.
func (c *costs) stepsBy(requests int, context int64, elapsed clock, most int) int {
	low, high := 1, most
	for low < high {
		if mid := (low + high) / 2; c.decode(requests, context, mid) >= elapsed {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return low
}
