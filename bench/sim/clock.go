package sim

import (
	"context"
	"time"
)

// minSleep is the shortest sleep. Below it a timer's error would be as large as the wait, and a
// worker at time scale 60 makes 4,000 steps a second: shorter waits are added to the next one.
const minSleep = time.Millisecond

// simClock maps a rank's simulated time to the wall clock. Each wait ends at an absolute
// instant, so later waits make up for an oversleep, and an hour does not drift.
type simClock struct {
	start time.Time
	scale float64       // simulated seconds a second
	now   time.Duration // simulated time of the rank
	lag   time.Duration // largest wall-clock delay behind the schedule so far
	timer *time.Timer
}

func newSimClock(scale float64) *simClock {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return &simClock{start: time.Now(), scale: scale, timer: t}
}

// due is the wall-clock instant of the rank's simulated time.
func (p *simClock) due() time.Time {
	return p.start.Add(time.Duration(float64(p.now) / p.scale))
}

// catchUp advances simulated time to the wall clock: an idle rank is never late.
func (p *simClock) catchUp() {
	p.now = max(p.now, time.Duration(float64(time.Since(p.start))*p.scale))
}

// pause waits for the rank's simulated time. It calls before only if it sleeps, and returns
// false when ctx ended.
func (p *simClock) pause(ctx context.Context, before func()) bool {
	wait := time.Until(p.due())
	p.lag = max(p.lag, -wait)
	if wait < minSleep {
		return ctx.Err() == nil
	}
	before()
	p.timer.Reset(wait)
	select {
	case <-p.timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// wall converts a simulated duration to the client's clock.
func (p *simClock) wall(d time.Duration) time.Duration {
	return time.Duration(float64(d) / p.scale)
}
