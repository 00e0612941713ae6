package replay

import (
	"strconv"
	"strings"
	"time"

	"github.com/warmpath/warmpath/bench/trace"
)

// Result is the result of a replay. Durations are those that a client of a real cluster of this
// speed would have seen: where the cluster is simulated, the measured ones times TimeScale,
// this machine's own delays included.
type Result struct {
	Policy    string  `json:"policy,omitempty"`
	API       string  `json:"api"`
	TimeScale float64 `json:"time_scale"`
	Simulated bool    `json:"simulated"`

	Requests   int    `json:"requests"` // answered and failed
	Errors     int    `json:"errors"`
	FirstError string `json:"first_error,omitempty"`
	// Of answered requests, by the servers' counts.
	PromptTokens int            `json:"prompt_tokens"`
	HitTokens    int            `json:"hit_tokens"` // of them, found in a cache
	OutputTokens int            `json:"output_tokens"`
	TTFT         trace.Times    `json:"ttft"`
	ITL          trace.Times    `json:"itl"`  // between one event with content and the next, of all
	TPOT         trace.Times    `json:"tpot"` // of requests: mean time between their tokens
	Latency      trace.Times    `json:"latency"`
	Workers      map[string]int `json:"workers"` // answers by X-Warmpath-Worker

	Overlap Overlap       `json:"overlap"`
	Events  int           `json:"events"`   // SSE events
	MaxLate time.Duration `json:"max_late"` // largest delay of a request by this machine
	Wall    time.Duration `json:"wall"`     // of the replay, as measured

	measured
}

// measured are the times of all answers, before they are summed up.
type measured struct {
	scale          float64 // of measured times
	pageSize       int
	ttfts, latency []time.Duration
	itls, tpots    []time.Duration
}

// Overlap compares the overlap that the router expected (X-Warmpath-Overlap) with the one that
// the worker reported.
type Overlap struct {
	Compared int `json:"compared"` // answers that carried the header
	Exact    int `json:"exact"`    // expected overlap as reported
	Enough   int `json:"enough"`   // at least 0.8 of the expected tokens were found
	Over     int `json:"over"`     // fewer tokens were found than expected
	Under    int `json:"under"`    // more
	Expected int `json:"expected_tokens"`
	Actual   int `json:"actual_tokens"`
}

// enough is the share of the expected overlap that makes a prediction right; the router's own
// measure.
const enough = 0.8

// sample is the result of one request.
type sample struct {
	worker, overlap string
	ttft, latency   time.Duration // as measured
	usage           usage
	events          int
	gaps            []time.Duration // valid during add
	err             error
}

func (r *Result) start(cfg Config) {
	r.API, r.TimeScale, r.Simulated, r.pageSize = cfg.API.String(), cfg.TimeScale, cfg.Simulated, cfg.PageSize
	r.Workers = map[string]int{}
	r.scale = 1
	if cfg.Simulated {
		r.scale = cfg.TimeScale
	}
}

func (r *Result) late(by time.Duration) { r.MaxLate = max(r.MaxLate, by) }

func (r *Result) add(o *sample) {
	r.Requests++
	r.Events += o.events
	if o.err != nil {
		if r.Errors++; r.Errors == 1 {
			r.FirstError = o.err.Error()
		}
		return
	}
	r.PromptTokens += o.usage.prompt
	r.HitTokens += o.usage.cached
	r.OutputTokens += o.usage.completion
	r.ttfts = append(r.ttfts, r.scaled(o.ttft))
	r.latency = append(r.latency, r.scaled(o.latency))
	for _, gap := range o.gaps {
		r.itls = append(r.itls, r.scaled(gap))
	}
	if n := o.usage.completion - 1; n > 0 {
		r.tpots = append(r.tpots, r.scaled((o.latency-o.ttft)/time.Duration(n)))
	}
	if o.worker != "" {
		r.Workers[o.worker]++
	}
	r.Overlap.add(o, r.pageSize)
}

func (r *Result) scaled(d time.Duration) time.Duration {
	return time.Duration(float64(d) * r.scale)
}

func (r *Result) finish(wall time.Duration) {
	r.Wall = wall
	r.TTFT, r.Latency = trace.TimesOf(r.ttfts), trace.TimesOf(r.latency)
	r.ITL, r.TPOT = trace.TimesOf(r.itls), trace.TimesOf(r.tpots)
}

// HitRate is the share of the prompt tokens that were found in a cache.
func (r *Result) HitRate() float64 { return share(r.HitTokens, r.PromptTokens) }

// add enters one answer. The engine computes at least the last token of a prompt, so it never
// reports all of it.
func (o *Overlap) add(s *sample, pageSize int) {
	matched, _, found := strings.Cut(s.overlap, "/")
	blocks, err := strconv.Atoi(matched)
	if !found || err != nil {
		return
	}
	expected := min(blocks*pageSize, max(0, s.usage.prompt-1)/pageSize*pageSize)
	o.Compared++
	o.Expected += expected
	o.Actual += s.usage.cached
	switch {
	case expected == s.usage.cached:
		o.Exact++
	case expected > s.usage.cached:
		o.Over++
	default:
		o.Under++
	}
	if float64(s.usage.cached) >= enough*float64(expected) {
		o.Enough++
	}
}

func share(part, whole int) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}
