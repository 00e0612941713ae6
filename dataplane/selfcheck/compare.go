package selfcheck

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/warmpath/warmpath/bench/policies"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
)

// Forecast is the simulated result of a policy on the counted requests of a window, in seconds.
type Forecast struct {
	Choice  Choice
	TTFT    float64   // mean
	P99     float64   // of the TTFT
	Latency float64   // mean time to the last token
	Hits    float64   // share of prompt tokens found in caches
	slices  []float64 // mean TTFT of each
	floor   float64   // of the TTFT beyond the computation of prompts
}

// evaluation is one check.
type evaluation struct {
	requests int // counted
	span     time.Duration
	observed observed
	why      string // why nothing follows from it; "": the simulation matches
	fit      fit
	floor    float64 // as in Forecast
	factor   float64 // by which the simulated mean TTFT is longer or shorter than the observed one
	present  Forecast
	others   []Forecast
}

// fit is the part of a simulation that follows from the answers.
type fit struct {
	rate   float64 // median, tokens a second
	base   time.Duration
	decode float64 // cost of decode steps over the simulator's usual
	speed  float64 // of all work over the measured one
}

// Bounds of an evaluation.
const (
	// slicesOfWindow are compared one by one: that they agree is chance once in 28 times, and once
	// in 800 where two checks must agree.
	slicesOfWindow = 8
	// tolerance is the relative error of a simulation that still counts, of the mean TTFT and of
	// the hits. smallHits is the error in hits that is always allowed.
	tolerance = 0.25
	smallHits = 0.05
	// mostFactor is the error of the mean TTFT from which nothing follows from a simulation.
	mostFactor = 2
	// mostWork bounds the requests of a window times routers and ranks, and so time and memory of a
	// simulation: 16 MiB for its routers' knowledge of caches.
	mostWork = 512 << 10
	// fits is how often a fit is corrected, fitted the error that ends it.
	fits, fitted = 5, 0.08
	// mostSpeed bounds the correction of the ranks' speed: attention over long contexts and the mix
	// of batches are worth so much, and more would explain any answer.
	mostSpeed = 1.25
)

// laboratory simulates.
type laboratory struct {
	options policy.Options // of the operator
	pace    *pacer
}

// evaluate simulates a window under the policy in force and under others. A fit of an earlier check
// holds where it is given: a trial must not explain a bad policy by slow engines.
func (l *laboratory) evaluate(ctx context.Context, w *window, c *cluster, present Choice, others []Choice, before *fit) (*evaluation, error) {
	e := &evaluation{
		requests: len(w.requests) - w.counted, span: time.Duration(w.end - w.requests[w.counted].at), observed: w.observed(),
	}
	if before != nil {
		e.fit = *before
	} else if e.fit.rate = c.rate(); e.fit.rate == 0 {
		e.fit.rate = w.fitRate()
	}
	if e.fit.rate <= 0 {
		e.why = "the prefill speed of the ranks is not known yet"
		return e, nil
	}
	step := w.fitStep()
	if before == nil {
		e.fit.speed = 1
		e.floor = w.floor(e.fit.rate)
		e.fit.base, e.fit.decode = min(max(time.Duration(e.floor*float64(time.Second)), leastBase), mostBase), step.Seconds()/usualStep.Seconds()
	}
	trace, err := newTrace(w, c.routers, e.fit.rate*float64(len(c.choosable())), step, l.pace.step)
	if err != nil {
		return nil, err
	}
	cfg := c.config(e.fit.rate)
	cfg.Options = l.options
	player, err := policies.NewPlayer(trace.requests, cfg, l.pace.step)
	if err != nil {
		return nil, fmt.Errorf("cannot simulate the last requests: %w", err)
	}
	play := func(choice Choice) (Forecast, error) {
		out, err := player.Play(ctx, choice.Policy, func(cfg *policies.Config) {
			cfg.Options.Without = choice.Without
			cfg.Service.PrefillBase = e.fit.base
			scaleDecode(&cfg.Service, e.fit.decode/e.fit.speed)
			cfg.Service.PrefillTokensPerSecond = e.fit.rate * e.fit.speed
		})
		if err != nil {
			return Forecast{}, err
		}
		return w.sum(choice, trace, out, e.fit.rate), nil
	}
	if err := e.match(play, present, before == nil); err != nil || e.why != "" {
		return e, err
	}
	for _, choice := range others {
		f, err := play(choice)
		if err != nil {
			return nil, err
		}
		e.others = append(e.others, f)
	}
	return e, nil
}

// match simulates the policy in force, corrects the fit by the answers' times if it may, and
// compares.
func (e *evaluation) match(play func(Choice) (Forecast, error), present Choice, correct bool) (err error) {
	if e.present, err = play(present); err != nil || !correct {
		return err
	}
	for n := 0; n < fits && e.correct(); n++ {
		if e.present, err = play(present); err != nil {
			return err
		}
	}
	slow, fast := 1/mostSpeed, mostSpeed
	for n := 0; n < fits && off(e.present.TTFT, e.observed.TTFT) > fitted; n++ {
		if e.present.TTFT > e.observed.TTFT {
			slow = e.fit.speed
		} else {
			fast = e.fit.speed
		}
		e.fit.speed = math.Sqrt(slow * fast)
		if e.present, err = play(present); err != nil {
			return err
		}
	}
	e.why = e.mismatch()
	return nil
}

// correct changes the costs that no rank reports where the simulation differs from the answers, and
// reports whether it did. The time between tokens shows the cost of decode steps, with the prefill
// batches between them, and the fastest first tokens show the fixed cost of a prefill.
func (e *evaluation) correct() (changed bool) {
	o, p := &e.observed, &e.present
	if ratio := (o.Latency - o.TTFT) / (p.Latency - p.TTFT); ratio > 0 && !math.IsInf(ratio, 0) && math.Abs(ratio-1) > fitted/2 {
		e.fit.decode *= min(max(ratio, 0.1), 10)
		changed = true
	}
	if off := e.floor - p.floor; math.Abs(off) > fitted/2*o.TTFT {
		e.fit.base = min(max(e.fit.base+time.Duration(off*float64(time.Second)), leastBase), mostBase)
		changed = true
	}
	return changed
}

// off is the relative error of a.
func off(a, b float64) float64 { return math.Abs(a-b) / max(b, 1e-9) }

// mismatch says where the simulation differs from the answers by too much.
func (e *evaluation) mismatch() string {
	o, p := &e.observed, &e.present
	e.factor = max(p.TTFT, 1e-9) / max(o.TTFT, 1e-9)
	e.factor = max(e.factor, 1/e.factor)
	switch {
	case e.factor > mostFactor:
		return fmt.Sprintf("the simulation does not match: it has a mean TTFT of %.3f s, clients had %.3f s", p.TTFT, o.TTFT)
	case o.Counted && off(p.Hits, o.Hits) > tolerance && math.Abs(p.Hits-o.Hits) > smallHits:
		return fmt.Sprintf("the simulation does not match: it finds %.0f %% of the prompt tokens in caches, the ranks found %.0f %%", 100*p.Hits, 100*o.Hits)
	}
	return ""
}

// least is the mean TTFT below which a forecast counts: a tenth, or as given, below the present
// one. Behind a policy that collapses queues grow without end, and no simulation has their length:
// then a forecast must be lower by the square of the factor by which the simulation errs.
func (e *evaluation) least(worth float64) float64 {
	if e.factor <= 1+tolerance {
		return (1 - worth) * e.present.TTFT
	}
	return min(e.present.TTFT, e.observed.TTFT) / (e.factor * e.factor)
}

// scaleDecode multiplies the costs of decode steps. The simulator's usual ones are of one GPU and
// model; their proportions hold for others.
func scaleDecode(s *policies.Service, by float64) {
	scale := func(d time.Duration) time.Duration { return max(time.Duration(float64(d)*by), 1) }
	s.DecodeBase, s.DecodePerRequest, s.DecodePerToken = scale(s.DecodeBase), scale(s.DecodePerRequest), scale(s.DecodePerToken)
}

// sum sums up the simulated answers to the counted requests that have an observed TTFT. Refused
// ones count with the window's length: nobody may gain by refusing.
func (w *window) sum(choice Choice, t *trace, out []policies.Outcome, rate float64) Forecast {
	f := Forecast{Choice: choice}
	var all, rest []float64
	var prompt, cached int64
	refused := time.Duration(w.end - w.requests[0].at).Seconds()
	for i := w.counted; i < len(w.requests); i++ {
		o, r := &out[t.own[i]], &w.requests[i]
		ttft, latency := o.TTFT.Seconds(), o.Latency.Seconds()
		if o.Refused {
			ttft, latency = refused, refused
		}
		if r.streamed {
			all = append(all, ttft)
			f.Latency += latency
			rest = append(rest, ttft-float64(int(r.input)-o.Cached)/rate)
		}
		if r.cached >= 0 && r.known {
			prompt += int64(r.input)
			cached += int64(o.Cached)
		}
	}
	n := len(all)
	if n == 0 {
		return f
	}
	for k := range slicesOfWindow {
		f.slices = append(f.slices, mean(all[n*k/slicesOfWindow:n*(k+1)/slicesOfWindow]))
	}
	f.floor = quantile(rest, baseQuantile)
	f.TTFT, f.Latency, f.Hits = mean(all), f.Latency/float64(n), float64(cached)/float64(max(prompt, 1))
	slices.Sort(all)
	f.P99 = all[n*99/100]
	return f
}

func mean(all []float64) (m float64) {
	for _, x := range all {
		m += x / float64(len(all))
	}
	return m
}

// tie is the difference between two slices, over the mean TTFT of the window, that is none: slices
// without a queue differ by chance.
const tie = 0.02

// gain is the part of the present mean TTFT that a forecast saves, with the slices in which it is
// lower and higher.
func (e *evaluation) gain(f *Forecast) (gain float64, lower, higher int) {
	for k := range f.slices {
		switch d := f.slices[k] - e.present.slices[k]; {
		case d < -tie*e.present.TTFT:
			lower++
		case d > tie*e.present.TTFT:
			higher++
		}
	}
	return 1 - f.TTFT/max(e.present.TTFT, 1e-9), lower, higher
}

// agree reports whether so many slices are beyond chance, by the sign test: of eight seven, and of
// fewer, at least five, all (p < 0.04).
func agree(lower, higher int) bool {
	return lower >= slicesBetter && higher <= 1 || lower >= leastBetter && higher == 0
}
