package health

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/warmpath/warmpath/nvml"
)

// Config configures the hysteresis. The zero value is sane.
type Config struct {
	// Rise is the time after which throttling and memory pressure count; time without them is
	// subtracted. 0 is 3 s.
	Rise time.Duration
	// Fall is the time after which the absence or relief of a reason counts. 0 is 30 s.
	Fall time.Duration
	// Stale is the age from which facts are doubted. 0 is 10 s: ten missed reads.
	Stale time.Duration
}

// gradualRules may see a glitch. The faults of all other rules do not come and go, and count at
// once.
var gradualRules = []string{"throttle", "memory"}

// Tracker evaluates all GPUs of a machine over time.
type Tracker struct {
	cfg  Config
	gpus map[string]*gpuHistory
}

// gpuHistory is the history of one GPU.
type gpuHistory struct {
	index       int
	uncorrected nvml.Opt[uint64]
	recoveries  nvml.Opt[uint64]
	links       int // most links ever up
	updated     time.Time
	rules       map[string]*ruleHistory
	result      Result
}

// ruleHistory is the history of one rule on one GPU.
type ruleHistory struct {
	active   Reason        // reason in effect; Healthy for none
	lastSeen time.Time     // when a reason at least as bad as active was last seen
	milder   *Reason       // worst reason since then; nil for none
	score    time.Duration // of gradual rules: time with less time without, up to Rise
}

// NewTracker returns a tracker without GPUs.
func NewTracker(cfg Config) *Tracker {
	cfg.Rise = cmp.Or(cfg.Rise, 3*time.Second)
	cfg.Fall = cmp.Or(cfg.Fall, 30*time.Second)
	cfg.Stale = cmp.Or(cfg.Stale, 10*time.Second)
	return &Tracker{cfg: cfg, gpus: map[string]*gpuHistory{}}
}

// Update evaluates a snapshot, and returns all GPUs ever seen by index. Call it for each new
// snapshot, and once a second without one, as facts grow stale.
func (t *Tracker) Update(now time.Time, s *nvml.Snapshot) []Result {
	// Stale facts count too: a GPU that was dead when the driver began to hang is dead.
	found := map[string][]Reason{}
	fresh := s.State == nvml.StateReady && now.Sub(s.At) <= t.cfg.Stale
	if s.State == nvml.StateReady {
		best := mostLinks(s.GPUs)
		for i := range s.GPUs {
			g := &s.GPUs[i]
			id := t.history(g)
			reasons := Evaluate(t.facts(id, g, best[g.Name.Value], now))
			if !fresh {
				reasons = append(reasons, unreadable(fmt.Sprintf("last read %s ago", now.Sub(s.At).Round(time.Second))))
			}
			found[id] = reasons
		}
	}
	results := make([]Result, 0, len(t.gpus))
	for id, tr := range t.gpus {
		reasons, there := found[id]
		if !there {
			reasons = absentReasons(s)
		}
		results = append(results, t.applyHysteresis(id, tr, reasons, now))
	}
	slices.SortFunc(results, func(a, b Result) int { return cmp.Or(a.Index-b.Index, cmp.Compare(a.GPU, b.GPU)) })
	return results
}

// Once evaluates a snapshot without history: every reason counts at once.
func Once(now time.Time, s *nvml.Snapshot) []Result {
	t := NewTracker(Config{})
	best := mostLinks(s.GPUs)
	results := make([]Result, len(s.GPUs))
	for i := range s.GPUs {
		g := &s.GPUs[i]
		id := t.history(g)
		results[i] = combine(Evaluate(t.facts(id, g, best[g.Name.Value], now)))
		results[i].GPU, results[i].Index, results[i].Since = id, g.Index, now
	}
	return results
}

// absentReasons returns the reasons for a known GPU that is not in a snapshot.
func absentReasons(s *nvml.Snapshot) []Reason {
	switch s.State {
	case nvml.StateReady:
		return []Reason{lostGPU("the driver no longer lists the GPU")}
	case nvml.StateNoDriver:
		// A module in use cannot be unloaded, so the GPU has no worker either.
		return []Reason{lostGPU("the driver is gone: " + s.Detail)}
	default:
		return []Reason{unreadable("the driver cannot be read: " + s.Detail)}
	}
}

// history returns the key of a GPU's history, which it adds where it is new. A GPU lost from the
// start has no UUID, and its index is the key.
func (t *Tracker) history(g *nvml.GPU) string {
	id := g.UUID.Or(fmt.Sprintf("index %d", g.Index))
	if g.UUID.OK {
		delete(t.gpus, fmt.Sprintf("index %d", g.Index))
	}
	tr := t.gpus[id]
	if tr == nil {
		tr = &gpuHistory{rules: map[string]*ruleHistory{}}
		t.gpus[id] = tr
	}
	tr.index = g.Index
	return id
}

// mostLinks returns the most links up on any GPU of each name. GPUs of one name in a machine are
// wired alike, so this finds links that were down from the start; links that are down by design
// are down on all GPUs.
func mostLinks(gpus []nvml.GPU) map[string]int {
	best := map[string]int{}
	for i := range gpus {
		name := gpus[i].Name.Value
		best[name] = max(best[name], gpus[i].LinksUp())
	}
	return best
}

// facts adds the history to a GPU's facts.
func (t *Tracker) facts(id string, g *nvml.GPU, alike int, now time.Time) *Facts {
	tr := t.gpus[id]
	f := &Facts{Now: now, GPU: g}
	if g.Err != nil {
		return f
	}
	tr.links = max(tr.links, g.LinksUp(), alike)
	f.Links = tr.links
	f.Uncorrected = increase(&tr.uncorrected, g.ECC.VolatileUncorrected)
	if len(g.Links) > 0 {
		f.Recoveries = increase(&tr.recoveries, nvml.Some(recoveries(g)))
	}
	return f
}

// increase returns the growth of a counter, and remembers it. A counter that fell was reset.
func increase(was *nvml.Opt[uint64], is nvml.Opt[uint64]) uint64 {
	if !is.OK {
		return 0
	}
	before := *was
	*was = is
	if !before.OK || is.Value < before.Value {
		return 0
	}
	return is.Value - before.Value
}

// applyHysteresis updates each rule, and combines the reasons in effect.
func (t *Tracker) applyHysteresis(id string, tr *gpuHistory, reasons []Reason, now time.Time) Result {
	passed := now.Sub(tr.updated)
	if tr.updated.IsZero() {
		passed, tr.result.Since = 0, now
	}
	tr.updated = now
	seen := map[string]*Reason{}
	for i := range reasons {
		r := &reasons[i]
		seen[r.Rule] = r
		if tr.rules[r.Rule] == nil {
			tr.rules[r.Rule] = &ruleHistory{active: Reason{Weight: 1, TP: true}}
		}
	}
	var held []Reason
	for rule, ru := range tr.rules {
		if seen["unreadable"] != nil && seen[rule] == nil && !strings.HasPrefix(rule, "xid") {
			ru.lastSeen = now // no new facts: the fault lasts
		}
		ru.update(t.cfg, seen[rule], slices.Contains(gradualRules, rule), passed, now)
		if ru.active.State != Healthy {
			held = append(held, ru.active)
		} else if ru.score == 0 {
			delete(tr.rules, rule)
		}
	}
	res := combine(held)
	res.GPU, res.Index, res.Since = id, tr.index, tr.result.Since
	if res.State != tr.result.State {
		res.Since = now
	}
	tr.result = res
	return res
}

// update takes the present reason of a rule, or nil. A worse reason than the active one counts at
// once, that of a gradual rule after Rise; a milder one counts after Fall without a worse one.
func (ru *ruleHistory) update(cfg Config, r *Reason, slowly bool, passed time.Duration, now time.Time) {
	if slowly {
		if r == nil {
			ru.score = max(ru.score-passed, 0)
		} else if ru.score = min(ru.score+passed, cfg.Rise); ru.score < cfg.Rise && ru.active.State == Healthy {
			return
		}
	}
	switch {
	case r != nil && (r.worse(&ru.active) || !ru.active.worse(r)):
		since := ru.active.Since
		if ru.active.State == Healthy {
			since = now
		}
		ru.active, ru.lastSeen, ru.milder = r.atLeast(&ru.active), now, nil
		ru.active.Since = since
		return
	case r != nil && (ru.milder == nil || r.worse(ru.milder)):
		ru.milder = r
	}
	if ru.active.State == Healthy || now.Sub(ru.lastSeen) < cfg.Fall {
		return
	}
	since := ru.active.Since
	ru.active, ru.lastSeen = Reason{Weight: 1, TP: true}, now
	if ru.milder != nil {
		ru.active, ru.active.Since = *ru.milder, since
	}
	ru.milder = nil
}
