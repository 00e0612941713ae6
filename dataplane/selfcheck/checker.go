package selfcheck

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
)

// Modes of a check.
const (
	Off    = "off"
	Advise = "advise" // better policies are named, and never used
	Auto   = "auto"   // a configured kv is changed; for another policy, Advise
	On     = "on"     // any policy is changed
)

// Modes lists the modes.
func Modes() []string { return []string{Auto, On, Advise, Off} }

// ErrNothing refuses to take back a change that does not exist.
var ErrNothing = errors.New("selfcheck: the configured policy is in force")

// Limits bound the checks; zero fields take the defaults.
type Limits struct {
	Share       float64       // of one processor; default 0.02
	Interval    time.Duration // between the end of a check and the next one; default 1 min
	MaxAge      time.Duration // of a request; default 15 min
	MaxRequests int           // of the history; default 16,384
	MaxBytes    int           // of the history; default 16 MiB
	Window      int           // the most requests of a check; default 4,096
	MinRequests int           // the fewest counted ones; default 150
	Trial       time.Duration // the least length of a trial; default 3 min
	Hold        time.Duration // the least time between two changes; default 10 min
	Bar         time.Duration // after a change that was taken back; default 30 min
}

func (l *Limits) setDefaults() {
	l.Share = cmp.Or(l.Share, 0.02)
	l.Interval = cmp.Or(l.Interval, time.Minute)
	l.MaxAge = cmp.Or(l.MaxAge, 15*time.Minute)
	l.MaxRequests = cmp.Or(l.MaxRequests, 16<<10)
	l.MaxBytes = cmp.Or(l.MaxBytes, 16<<20)
	l.Window = cmp.Or(l.Window, 4096)
	l.MinRequests = cmp.Or(l.MinRequests, 150)
	l.Trial = cmp.Or(l.Trial, 3*time.Minute)
	l.Hold = cmp.Or(l.Hold, 10*time.Minute)
	l.Bar = cmp.Or(l.Bar, 30*time.Minute)
}

// Peers are the routers that send requests to the same ranks.
type Peers struct {
	Routers int    // this one included
	Leader  string // the router that chooses for all; "": this one
	Apart   bool   // each chooses alone
}

// Config holds the parts of a checker.
type Config struct {
	Mode    string
	Policy  Choice         // configured
	Options policy.Options // of the configured policy, but for its terms
	Limits  Limits
	Workers func() *worker.Snapshot
	Peers   func() Peers // nil: there are no other routers
	Set     func(Choice) // puts a policy in force
	Log     *slog.Logger
}

// Checker tests the choice of one router.
type Checker struct {
	*recorder
	cfg   Config
	lab   laboratory
	began time.Time
	// measure reads the ranks; tests have none.
	measure func(snap *worker.Snapshot, model string, routers int, now time.Time) (cluster, string)

	mu      sync.Mutex
	mode    string   // guarded by mu, as is all below
	decider *decider // by Run, TakeBack and Configure
	seen    uint64   // requests that were ever recorded, when the last window was made
	counted int      // requests in it
	round   int      // evaluations are of the policy of this round; changes begin another
	last    check    // shown
	waiting string   // why there is no check now
	counts  counts
}

// counts are since the start.
type counts struct{ checks, matched, changes, takenBack, advice uint64 }

// check is a check that ended.
type check struct {
	at   time.Time
	took time.Duration
	note string // why it compared nothing
	eval *evaluation
}

// New returns a checker; Run must follow.
func New(cfg Config) *Checker {
	cfg.Limits.setDefaults()
	l := cfg.Limits
	c := &Checker{
		cfg: cfg, measure: measure, recorder: newRecorder(newHistory(l.MaxRequests, l.MaxBytes, l.MaxAge)), began: time.Now(),
		lab: laboratory{options: cfg.Options, pace: &pacer{share: l.Share}}, decider: newDecider(l, cfg.Policy, time.Now()),
	}
	c.setMode(cfg.Mode)
	return c
}

// setMode needs mu, but in New.
func (c *Checker) setMode(mode string) {
	c.mode = mode
	c.on.Store(mode != Off)
}

// Configure puts an operator's policy in force and begins anew.
func (c *Checker) Configure(mode string, configured Choice, options policy.Options) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.setMode(mode)
	c.lab.options = options
	c.decider.configure(configured, time.Now())
	c.seen, c.counted, c.last = 0, 0, check{}
	c.round++
	c.cfg.Set(configured)
	if mode == Off {
		c.clear()
	}
}

// Run records and checks until ctx ends.
func (c *Checker) Run(ctx context.Context) error {
	var collecting sync.WaitGroup
	collecting.Go(func() { c.collect(ctx) })
	defer collecting.Wait()
	tick := time.NewTimer(c.cfg.Limits.Interval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			c.check(ctx)
			tick.Reset(c.cfg.Limits.Interval)
		case <-ctx.Done():
			return nil
		}
	}
}

// job is a check to make.
type job struct {
	round   int
	window  *window
	cluster cluster
	present Choice
	others  []Choice
	fit     *fit // of a trial
	options policy.Options
}

// check makes one check, where there is something to check.
func (c *Checker) check(ctx context.Context) {
	began := time.Now()
	j, why := c.next(began)
	if why != "" {
		c.mu.Lock()
		c.waiting = why
		c.mu.Unlock()
		return
	}
	c.lab.pace.begin(ctx)
	lab := laboratory{options: j.options, pace: c.lab.pace}
	e, err := lab.evaluate(ctx, j.window, &j.cluster, j.present, j.others, j.fit)
	c.lab.pace.end()
	switch {
	case ctx.Err() != nil:
	case err != nil:
		c.cfg.Log.Warn("self-check failed", "error", err)
		c.mu.Lock()
		c.last, c.waiting = check{at: began, took: time.Since(began), note: err.Error()}, ""
		c.mu.Unlock()
	default:
		c.conclude(began, j, e)
	}
}

// next prepares a check; why says why there is nothing to check.
func (c *Checker) next(now time.Time) (j *job, why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mode == Off {
		return nil, "off"
	}
	peers := c.peers()
	if peers.Leader != "" {
		c.leaveLocked(now, peers.Leader)
		return nil, "router " + peers.Leader + " leads, and checks for all"
	}
	d := c.decider
	j = &job{round: c.round, present: d.current, options: c.lab.options}
	since, need := d.since.UnixNano(), c.cfg.Limits.MinRequests
	if d.trial != nil {
		need /= 2
		j.fit, j.others = &d.trial.fit, []Choice{d.trial.from}
	} else {
		for _, choice := range alternatives(d.configured, c.lab.options.Without) {
			if choice != d.current {
				j.others = append(j.others, choice)
			}
		}
	}
	n, added := c.progress()
	switch fresh := int(added - c.seen); {
	case n < need:
		return nil, fmt.Sprintf("%d requests are too few, %d are needed", n, need)
	case fresh < max(c.counted/2, need/8):
		return nil, "fewer than half of the requests are new since the last check"
	}
	c.seen = added
	if j.window, why = c.windowOf(since, max(peers.Routers, 1)); why != "" {
		return nil, why
	}
	if why = j.window.tooSmall(need); why != "" {
		return nil, why
	}
	c.counted = len(j.window.requests) - j.window.counted
	j.cluster, why = c.measure(c.cfg.Workers(), j.window.model, peers.Routers, now)
	return j, why
}

// windowOf takes the window from the history.
func (c *Checker) windowOf(since int64, routers int) (*window, string) {
	work := max(len(c.cfg.Workers().Ranks), 1) * routers
	c.recorder.mu.Lock()
	defer c.recorder.mu.Unlock()
	h := c.history
	h.trim(time.Now().UnixNano())
	if h.n == 0 {
		return nil, "there are no requests"
	}
	return h.window(min(c.cfg.Limits.Window, mostWork/work), since)
}

func (c *Checker) peers() Peers {
	if c.cfg.Peers == nil {
		return Peers{Routers: 1}
	}
	return c.cfg.Peers()
}

// leaveLocked restores the configured policy of a router that no longer leads.
func (c *Checker) leaveLocked(now time.Time, leader string) {
	d := c.decider
	if d.current == d.configured {
		return
	}
	from := d.current
	a := d.change(now, d.configured, "router "+leader+" leads now")
	d.trial = nil
	c.apply(a, from)
}

// conclude lets an evaluation have its effect, unless the policy was changed meanwhile.
func (c *Checker) conclude(began time.Time, j *job, e *evaluation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if j.round != c.round || c.mode == Off {
		return
	}
	now, d, from := time.Now(), c.decider, c.decider.current
	c.counts.checks++
	if e.why == "" {
		c.counts.matched++
	}
	c.waiting = ""
	c.last = check{at: began, took: now.Sub(began), note: e.why, eval: e}
	if d.trial != nil {
		a := d.judge(now, e)
		if a.note != "" && !a.change {
			c.cfg.Log.Info("self-check: the new policy has proved itself", "policy", d.current.String(), "why", a.note)
		}
		c.apply(a, from)
		return
	}
	may := !c.peers().Apart && (c.mode == On || c.mode == Auto && d.configured.Policy == kv)
	c.apply(d.decide(now, e, may), from)
}

// apply puts an action into force and logs it.
func (c *Checker) apply(a action, from Choice) {
	switch {
	case a.advise:
		c.counts.advice++
		c.cfg.Log.Info("self-check advises another policy", "policy", a.to.String(), "instead_of", from.String(), "why", a.note)
	case a.change:
		c.counts.changes++
		if a.warn {
			c.counts.takenBack++
			c.cfg.Log.Warn("self-check takes a change of the policy back", "policy", a.to.String(), "instead_of", from.String(), "why", a.note)
		} else {
			c.cfg.Log.Info("self-check changes the policy", "policy", a.to.String(), "instead_of", from.String(), "why", a.note)
		}
		c.counted = 0
		c.round++
		c.cfg.Set(a.to)
	}
}

// TakeBack restores the configured policy and bars the one in force, for an operator.
func (c *Checker) TakeBack() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := c.decider
	if d.current == d.configured {
		return ErrNothing
	}
	from := d.current
	c.apply(d.takeBack(time.Now(), "an operator took it back", d.configured), from)
	return nil
}
