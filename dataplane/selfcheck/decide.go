package selfcheck

import (
	"fmt"
	"slices"
	"time"
)

// Rules of decisions.
const (
	// worth is the least gain in mean TTFT for which a policy is changed; home that for which the
	// configured one comes back. Of slicesOfWindow so many must agree.
	worth, home  = 0.10, 0.03
	slicesBetter = 7
	leastBetter  = 5
	// noWorse bounds a better policy's p99 of the TTFT and its time to the last token.
	noWorse = 1.05
	// checksInARow must agree.
	checksInARow = 2
	// alarm ends a trial early: the observed TTFT over that of the old policy.
	alarm = 1.5
	// restless is the time for which a change lengthens the pause before the next one, and mostHold
	// bounds that pause.
	restless, mostHold = 6 * time.Hour, 4 * time.Hour
	// mostBar bounds the time for which no policy is tried after one has failed.
	mostBar = 24 * time.Hour
	// keptChanges is how many changes /status shows.
	keptChanges = 16
)

// action is the result of a decision.
type action struct {
	to     Choice // the policy from now on
	change bool
	advise bool // new advice to log
	note   string
	warn   bool
}

// decider decides by evaluations. It has no clock of its own and is not safe for concurrent use.
type decider struct {
	limits     Limits
	configured Choice
	current    Choice
	since      time.Time // of current
	why        string    // current is in force

	streak  streak
	advised Choice
	trial   *trial
	bar     bar
	changes []Change
}

// streak is the best policy of the last checks.
type streak struct {
	choice Choice
	checks int
	gain   float64
}

// trial is a change that must prove itself.
type trial struct {
	from  Choice
	fit   fit
	ratio float64 // observed over simulated TTFT, before the change
	gain  float64 // forecast
	begun time.Time
}

// bar keeps all other policies out: a change that was taken back is a simulation that errs.
type bar struct {
	until time.Time
	times int
}

// Change is a change of the policy, or the end of a trial.
type Change struct {
	At       time.Time
	From, To Choice
	Why      string
}

func newDecider(l Limits, configured Choice, now time.Time) *decider {
	d := &decider{limits: l}
	d.configure(configured, now)
	return d
}

// configure begins anew with an operator's policy.
func (d *decider) configure(c Choice, now time.Time) {
	d.configured, d.current, d.since, d.why = c, c, now, "configured"
	d.streak, d.trial, d.advised, d.bar = streak{}, nil, Choice{}, bar{}
}

// decide takes an evaluation of the policy in force. may says that a change is allowed, else there
// is advice only.
func (d *decider) decide(now time.Time, e *evaluation, may bool) action {
	if e.why != "" || now.Before(d.bar.until) {
		d.streak = streak{}
		return action{}
	}
	best := d.best(e)
	if best == nil {
		d.streak, d.advised = streak{}, Choice{}
		return action{}
	}
	gain, lower, _ := e.gain(best)
	if d.streak.choice != best.Choice {
		d.streak = streak{choice: best.Choice}
	}
	d.streak.checks++
	d.streak.gain = gain
	if d.streak.checks < checksInARow {
		return action{}
	}
	why := fmt.Sprintf("on %d requests of the last %v its mean TTFT is %.0f %% lower in simulation (%.3f s instead of %.3f s, lower in %d of %d slices)",
		e.requests, e.span.Round(time.Second), 100*gain, best.TTFT, e.present.TTFT, lower, slicesOfWindow)
	if !may {
		if d.advised == best.Choice {
			return action{}
		}
		d.advised = best.Choice
		return action{to: best.Choice, advise: true, note: why}
	}
	if now.Before(d.nextChange()) {
		return action{}
	}
	d.trial = &trial{from: d.current, fit: e.fit, ratio: e.observed.TTFT / max(e.present.TTFT, 1e-9), gain: gain, begun: now}
	return d.change(now, best.Choice, why)
}

// best returns the best policy that is better than the present one beyond doubt; nil: none is.
func (d *decider) best(e *evaluation) (best *Forecast) {
	for i := range e.others {
		f := &e.others[i]
		_, lower, higher := e.gain(f)
		need := worth
		if f.Choice == d.configured {
			need = home
		}
		switch {
		case f.Choice == d.current, f.TTFT > e.least(need), !agree(lower, higher):
		case f.P99 > noWorse*e.present.P99, f.Latency > noWorse*e.present.Latency:
		case best == nil || f.TTFT < (1-worth)*best.TTFT: // of equals the first: kv is
			best = f
		}
	}
	return best
}

// nextChange is the earliest time of the next change: each one of the last hours doubles the pause.
func (d *decider) nextChange() time.Time {
	if len(d.changes) == 0 {
		return time.Time{}
	}
	last, pause := d.changes[len(d.changes)-1].At, d.limits.Hold
	for _, c := range d.changes[:len(d.changes)-1] {
		if last.Sub(c.At) < restless {
			pause = min(2*pause, mostHold)
		}
	}
	return last.Add(pause)
}

func (d *decider) change(now time.Time, to Choice, why string) action {
	from := d.current
	d.changes = append(d.changes, Change{At: now, From: from, To: to, Why: why})
	d.changes = slices.Delete(d.changes, 0, max(len(d.changes)-keptChanges, 0))
	d.current, d.since, d.why, d.streak = to, now, why, streak{}
	return action{to: to, change: true, note: why}
}

// judge ends the trial where the evaluation, of requests since the change, allows it. Its present
// forecast is the new policy's, and the first of the others the old one's.
func (d *decider) judge(now time.Time, e *evaluation) action {
	t := d.trial
	if e.why != "" || len(e.others) == 0 {
		return action{}
	}
	old, is, seen := e.others[0].TTFT*t.ratio, e.present.TTFT*t.ratio, e.observed.TTFT
	switch limit := (old + min(old, is)) / 2; {
	case seen > alarm*old:
	case now.Sub(t.begun) < d.limits.Trial || e.observed.Streamed < d.limits.MinRequests:
		return action{}
	case seen <= limit:
		d.trial = nil
		d.why += fmt.Sprintf("; proved on %d requests: %.3f s, where %v had %.3f s by forecast", e.observed.Streamed, seen, t.from, old)
		return action{note: fmt.Sprintf("a mean TTFT of %.3f s on %d requests; by forecast it is %.3f s, and %.3f s with the old policy", seen, e.observed.Streamed, is, old)}
	}
	return d.takeBack(now, fmt.Sprintf("in its trial %v had a mean TTFT of %.3f s on %d requests; by forecast it is %.3f s, and %.3f s with %v",
		d.current, seen, e.observed.Streamed, is, old, t.from), t.from)
}

// takeBack restores a policy and keeps it for a time, longer each time.
func (d *decider) takeBack(now time.Time, why string, to Choice) action {
	d.bar.until = now.Add(min(d.limits.Bar<<min(d.bar.times, 10), mostBar))
	d.bar.times++
	d.trial = nil
	a := d.change(now, to, why)
	a.warn = true
	return a
}
