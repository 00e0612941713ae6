package policies

import (
	"time"

	"github.com/warmpath/warmpath/bench/trace"
)

// Result is the result of one policy on a trace.
type Result struct {
	Policy   string        `json:"policy"`
	Requests int           `json:"requests"` // answered
	Refused  int           `json:"refused"`  // too long for any worker's pool, or turned away
	TTFT     trace.Times   `json:"ttft"`
	ITL      trace.Times   `json:"itl"`  // between one token and the next, of all tokens
	TPOT     trace.Times   `json:"tpot"` // of requests: mean time between their tokens
	Latency  trace.Times   `json:"latency"`
	Span     time.Duration `json:"span"` // from the first arrival to the last token

	Queueing
	TokenCounts

	Hits       float64 `json:"hits"`       // HitTokens / PromptTokens
	Throughput float64 `json:"throughput"` // answered requests a second
	Tokens     float64 `json:"tokens"`     // prompt and output tokens a second
	// Imbalance is the busiest worker's time at work over the mean of all; Busy is that mean
	// over Span.
	Imbalance float64  `json:"imbalance"`
	Busy      float64  `json:"busy"`
	Workers   []Worker `json:"workers"`
	// Expected compares the expected overlap with the found one.
	Expected Expected `json:"expected"`

	TTFTs []time.Duration `json:"-"` // of all answered requests, sorted
	kept
}

// kept are the distributions that results of several runs are put together from.
type kept struct {
	tpots []time.Duration
	gaps  gaps
}

// Queueing is the queue at the routers.
type Queueing struct {
	TurnedAway int           `json:"turned_away,omitempty"` // requests that found it full
	Held       int           `json:"held,omitempty"`        // requests that waited there
	HeldFor    time.Duration `json:"held_for,omitempty"`    // their mean wait
}

// TokenCounts add up over all answered requests.
type TokenCounts struct {
	PromptTokens int64 `json:"prompt_tokens"`
	HitTokens    int64 `json:"hit_tokens"` // found in a cache, host memory included
	// Of them, from host memory of worker or node.
	HostTokens   int64 `json:"host_tokens"`
	PulledTokens int64 `json:"pulled_tokens,omitempty"` // from another node's tier
	OutputTokens int64 `json:"output_tokens"`
}

// Worker is one worker's share.
type Worker struct {
	Requests  int     `json:"requests"`
	Prefilled int64   `json:"prefilled"` // prompt tokens computed
	Evicted   int64   `json:"evicted"`   // pages
	Busy      float64 `json:"busy"`      // share of Span
}

// Expected counts requests by whether the router knew.
type Expected struct {
	Exact  int `json:"exact"`  // found the expected overlap
	Enough int `json:"enough"` // at least 0.8 of it, which the router itself counts as a hit
}

const enough = 0.8

// result sums a run up.
func (s *run) result() *Result {
	r := &Result{Policy: s.name, Refused: s.refused, Queueing: Queueing{TurnedAway: s.holding.turned, Held: s.holding.held}}
	var ttft, tpot, latency []time.Duration
	waited := 0.0
	last := clock(0)
	for i := range s.tasks {
		t := &s.tasks[i]
		if !s.arrivals.measured(t) {
			continue
		}
		r.Requests++
		ttft = append(ttft, (t.first - t.arrived).duration())
		latency = append(latency, (t.ended - t.arrived).duration())
		if t.output > 1 {
			tpot = append(tpot, ((t.ended - t.first) / clock(t.output-1)).duration())
		}
		r.PromptTokens += int64(t.input)
		r.OutputTokens += int64(t.output)
		r.HitTokens += int64(t.cached + t.hosted)
		r.HostTokens += int64(t.hosted)
		last = max(last, t.ended)
		if s.cfg.queue != "" {
			waited += float64((t.sent - t.arrived).duration())
		}
		found, expected := t.cached+t.hosted, t.input-t.uncached
		if found == expected {
			r.Expected.Exact++
		}
		if float64(found) >= enough*float64(expected) {
			r.Expected.Enough++
		}
	}
	r.HeldFor = time.Duration(ratio(waited, float64(r.Held)))
	r.TTFT, r.TPOT, r.Latency, r.TTFTs = trace.TimesOf(ttft), trace.TimesOf(tpot), trace.TimesOf(latency), ttft
	for _, w := range s.workers {
		r.gaps.Merge(&w.gaps.Histogram)
	}
	r.ITL, r.tpots = r.gaps.times(), tpot
	span := last - s.arrivals.first()
	r.Span = span.duration()
	r.Hits = ratio(float64(r.HitTokens), float64(r.PromptTokens))
	r.Throughput = ratio(float64(r.Requests), span.seconds())
	r.Tokens = ratio(float64(r.PromptTokens+r.OutputTokens), span.seconds())
	for _, d := range s.tiers.byNode {
		r.PulledTokens += d.pulled
	}
	r.addWorkers(s, span)
	return r
}

func (r *Result) addWorkers(s *run, span clock) {
	sum, most := 0.0, 0.0
	for i := range s.workers {
		counts := s.arrivals.counts(i)
		busy := ratio(counts.busy.seconds(), span.seconds())
		r.Workers = append(r.Workers, Worker{Requests: counts.requests, Prefilled: counts.prefilled, Evicted: counts.evicted, Busy: busy})
		sum, most = sum+busy, max(most, busy)
	}
	r.Busy = sum / float64(len(s.workers))
	r.Imbalance = ratio(most, r.Busy)
}

func ratio(part, whole float64) float64 {
	if whole == 0 {
		return 0
	}
	return part / whole
}
