package policies

import (
	"context"
	"fmt"
	"time"
)

// worth is a gain in mean TTFT below which it is not worth running something more for.
const worth = 0.10

type adviser struct {
	*study
	ctx       context.Context //nolint:containedctx // Lives as long as the call of Advise.
	report    *Report
	objective time.Duration
	kv        *Result // at the configured size
	enough    int     // workers that keep the objective, 0 if none do
}

func (a *adviser) say(format string, args ...any) {
	a.report.Advice = append(a.report.Advice, fmt.Sprintf(format, args...))
}

// try returns the result of a policy under a changed configuration.
func (a *adviser) try(policy string, change func(*Config)) (*Result, error) {
	cfg := a.cfg
	if change != nil {
		change(&cfg)
	}
	return a.run(a.ctx, policy, cfg)
}

// size looks for the fewest workers that keep the objective with kv.
func (a *adviser) size() (err error) {
	if a.kv = resultOf(a.report.Results, "kv"); a.kv == nil {
		if a.kv, err = a.try("kv", nil); err != nil {
			return err
		}
	}
	// The TTFT of an idle worker bounds the effect of more workers, so the search ends at four
	// times the size.
	low, high := 1, 4*a.cfg.Workers
	keeps := func(n int) (bool, error) {
		x, err := a.try("kv", func(c *Config) { c.Workers = n })
		return err == nil && x.TTFT.P99 <= a.objective, err
	}
	ok, err := keeps(high)
	if err != nil || !ok {
		a.say("No number of workers up to %d keeps 99 %% of first tokens within %v: prompts are too long for the prefill rate. "+
			"Faster workers or shorter prompts would help, more workers would not.", high, a.objective)
		return err
	}
	for low < high {
		mid := (low + high) / 2
		if ok, err = keeps(mid); err != nil {
			return err
		}
		if ok {
			high = mid
		} else {
			low = mid + 1
		}
	}
	a.enough = low
	if low == 1 {
		a.say("One node is enough: it keeps 99 %% of first tokens within %v.", a.objective)
		return nil
	}
	a.say("%d workers keep 99 %% of first tokens within %v, fewer do not. The simulated %d have a p99 of %v.", low, a.objective,
		a.cfg.Workers, a.kv.TTFT.P99.Round(time.Millisecond))
	return nil
}

// routing compares kv with round robin.
func (a *adviser) routing() (err error) {
	if a.cfg.Workers == 1 {
		a.say("With one worker there is nothing to choose: a router costs and gives nothing, the engine's own tree does it all.")
		return nil
	}
	plain := resultOf(a.report.Results, "round-robin")
	if plain == nil {
		if plain, err = a.try("round-robin", nil); err != nil {
			return err
		}
	}
	gain := 1 - ratio(float64(a.kv.TTFT.Mean), float64(plain.TTFT.Mean))
	if gain < worth {
		a.say("Routing by cache is worth %.0f %% of the mean TTFT here: round robin does as well, because hardly anything that is shared is not "+
			"already everywhere (%.1f %% of tokens are found without it, %.1f %% with it).", 100*gain, 100*plain.Hits, 100*a.kv.Hits)
		return nil
	}
	a.say("Route by cache: kv takes %.0f %% off the mean TTFT of round robin (%v instead of %v) and %.0f %% off its p99; "+
		"hits %.1f %% instead of %.1f %%.",
		100*gain, a.kv.TTFT.Mean.Round(time.Millisecond), plain.TTFT.Mean.Round(time.Millisecond),
		100*(1-ratio(float64(a.kv.TTFT.P99), float64(plain.TTFT.P99))), 100*a.kv.Hits, 100*plain.Hits)
	if best := a.report.Best(); best != nil && best.Policy != "kv" && best.TTFT.Mean < a.kv.TTFT.Mean*95/100 {
		a.say("On this trace %s is %.0f %% faster than kv in the mean (p99 %v against %v).", best.Policy,
			100*(1-ratio(float64(best.TTFT.Mean), float64(a.kv.TTFT.Mean))), best.TTFT.P99.Round(time.Millisecond), a.kv.TTFT.P99.Round(time.Millisecond))
	}
	return nil
}

// replicas compares one router with two under each way of sharing.
func (a *adviser) replicas() error {
	if a.cfg.Workers == 1 {
		return nil
	}
	one, err := a.try("kv", func(c *Config) { c.Routers = 1 })
	if err != nil {
		return err
	}
	loss := func(share Sharing) (float64, error) {
		x, err := a.try("kv", func(c *Config) { c.Routers, c.Share = 2, share })
		if err != nil {
			return 0, err
		}
		return 100 * (ratio(float64(x.TTFT.Mean), float64(one.TTFT.Mean)) - 1), nil
	}
	var cost [2]float64
	for i, share := range []Sharing{SharePolls, ShareGossip} {
		if cost[i], err = loss(share); err != nil {
			return err
		}
	}
	a.say("Run one router replica for speed, a second one only so that one may fail: it changes the mean TTFT by %+.0f %% where replicas learn of each "+
		"other from workers' reports, %+.0f %% where they tell each other what they send.",
		cost[0], cost[1])
	return nil
}
