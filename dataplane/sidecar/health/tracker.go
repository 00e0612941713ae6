package health

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/warmpath/warmpath/nvml"
)

// Config holds the times of the hysteresis. The zero value is good.
type Config struct {
	// Rise is how long throttling and memory pressure must be seen for before they count, 3 s when 0: time in which they
	// are absent is taken off again.
	Rise time.Duration
	// Fall is how long a reason must be absent, or milder, before that counts; 30 s when 0.
	Fall time.Duration
	// Stale is the age at which facts are no longer believed, 10 s when 0: ten reads that did not come.
	Stale time.Duration
}

// gradual are the rules that may see a glitch. All others count at once: they see what does not come and go.
var gradual = []string{"throttle", "memory"}

// Tracker judges all GPUs of a machine over time.
type Tracker struct {
	cfg  Config
	gpus map[string]*track
}

// track is the memory of one GPU.
type track struct {
	index       int
	uncorrected nvml.Opt[uint64]
	recoveries  nvml.Opt[uint64]
	links       int // the most that were ever up
	seen        time.Time
	rules       map[string]*ruling
	result      Result
}

// ruling is the memory of one rule about one GPU.
type ruling struct {
	held  Reason        // what counts; Healthy while nothing does
	last  time.Time     // when something as bad as held was last seen
	mild  *Reason       // the worst that was seen since then; nil for nothing
	score time.Duration // for gradual rules: time seen less time not seen, up to Rise
}

// NewTracker returns a tracker that has seen no GPU.
func NewTracker(cfg Config) *Tracker {
	cfg.Rise = cmp.Or(cfg.Rise, 3*time.Second)
	cfg.Fall = cmp.Or(cfg.Fall, 30*time.Second)
	cfg.Stale = cmp.Or(cfg.Stale, 10*time.Second)
	return &Tracker{cfg: cfg, gpus: map[string]*track{}}
}

// Update judges a snapshot, and returns all GPUs that were ever seen in the order of their indexes. Call it for each new
// snapshot, and once a second where none comes, for then the old one grows stale.
func (t *Tracker) Update(now time.Time, s *nvml.Snapshot) []Result {
	// Even stale facts are judged: a GPU that was dead when the driver began to hang is no better for it.
	found := map[string][]Reason{}
	fresh := s.State == nvml.StateReady && now.Sub(s.At) <= t.cfg.Stale
	if s.State == nvml.StateReady {
		best := mostLinks(s.GPUs)
		for i := range s.GPUs {
			g := &s.GPUs[i]
			id := t.identify(g)
			reasons := Judge(t.facts(id, g, best[g.Name.Value], now))
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
			reasons = missing(s)
		}
		results = append(results, t.settle(id, tr, reasons, now))
	}
	slices.SortFunc(results, func(a, b Result) int { return cmp.Or(a.Index-b.Index, cmp.Compare(a.GPU, b.GPU)) })
	return results
}

// Once judges a snapshot without a memory: every reason counts as it is seen.
func Once(now time.Time, s *nvml.Snapshot) []Result {
	t := NewTracker(Config{})
	best := mostLinks(s.GPUs)
	results := make([]Result, len(s.GPUs))
	for i := range s.GPUs {
		g := &s.GPUs[i]
		id := t.identify(g)
		results[i] = combine(Judge(t.facts(id, g, best[g.Name.Value], now)))
		results[i].GPU, results[i].Index, results[i].Since = id, g.Index, now
	}
	return results
}

// missing is what it means that a GPU that was there is not in a snapshot.
func missing(s *nvml.Snapshot) []Reason {
	switch s.State {
	case nvml.StateReady:
		return []Reason{gone("the driver no longer lists the GPU")}
	case nvml.StateNoDriver:
		// A module that is in use cannot be unloaded, so no worker is on the GPU either.
		return []Reason{gone("the driver is gone: " + s.Detail)}
	default:
		return []Reason{unreadable("the driver cannot be read: " + s.Detail)}
	}
}

// identify finds or begins the memory of a GPU. One that is lost from the start has no UUID; its index stands in.
func (t *Tracker) identify(g *nvml.GPU) string {
	id := g.UUID.Or(fmt.Sprintf("index %d", g.Index))
	if g.UUID.OK {
		delete(t.gpus, fmt.Sprintf("index %d", g.Index))
	}
	tr := t.gpus[id]
	if tr == nil {
		tr = &track{rules: map[string]*ruling{}}
		t.gpus[id] = tr
	}
	tr.index = g.Index
	return id
}

// mostLinks is how many links are up on the best GPU of each name. GPUs of one kind in one machine are wired alike, so
// a link that was down before we looked is found too; links that are down by design are down on all.
func mostLinks(gpus []nvml.GPU) map[string]int {
	best := map[string]int{}
	for i := range gpus {
		name := gpus[i].Name.Value
		best[name] = max(best[name], linksUp(&gpus[i]))
	}
	return best
}

// facts adds what was seen before.
func (t *Tracker) facts(id string, g *nvml.GPU, alike int, now time.Time) *Facts {
	tr := t.gpus[id]
	f := &Facts{Now: now, GPU: g}
	if g.Err != nil {
		return f
	}
	tr.links = max(tr.links, linksUp(g), alike)
	f.Links = tr.links
	f.Uncorrected = rise(&tr.uncorrected, g.ECC.VolatileUncorrected)
	if len(g.Links) > 0 {
		f.Recoveries = rise(&tr.recoveries, nvml.Some(recoveries(g)))
	}
	return f
}

// rise is how much a counter has risen, and remembers it. A counter that fell was reset.
func rise(was *nvml.Opt[uint64], is nvml.Opt[uint64]) uint64 {
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

// settle applies the hysteresis to each rule, and makes one judgement of what counts.
func (t *Tracker) settle(id string, tr *track, reasons []Reason, now time.Time) Result {
	passed := now.Sub(tr.seen)
	if tr.seen.IsZero() {
		passed, tr.result.Since = 0, now
	}
	tr.seen = now
	seen := map[string]*Reason{}
	for i := range reasons {
		r := &reasons[i]
		seen[r.Rule] = r
		if tr.rules[r.Rule] == nil {
			tr.rules[r.Rule] = &ruling{held: Reason{Weight: 1, TP: true}}
		}
	}
	var held []Reason
	for rule, ru := range tr.rules {
		if seen["unreadable"] != nil && seen[rule] == nil && !strings.HasPrefix(rule, "xid") {
			ru.last = now // nobody has looked: what was wrong is no better for it
		}
		ru.update(t.cfg, seen[rule], slices.Contains(gradual, rule), passed, now)
		if ru.held.State != Healthy {
			held = append(held, ru.held)
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

// update takes in what a rule says now; nil is nothing. What is worse than what is held counts at once, except that a
// gradual rule must have been seen for some time; what is milder counts when nothing worse was seen for Fall.
func (ru *ruling) update(cfg Config, r *Reason, slowly bool, passed time.Duration, now time.Time) {
	if slowly {
		if r == nil {
			ru.score = max(ru.score-passed, 0)
		} else if ru.score = min(ru.score+passed, cfg.Rise); ru.score < cfg.Rise && ru.held.State == Healthy {
			return
		}
	}
	switch {
	case r != nil && (r.worse(&ru.held) || !ru.held.worse(r)):
		since := ru.held.Since
		if ru.held.State == Healthy {
			since = now
		}
		ru.held, ru.last, ru.mild = r.with(&ru.held), now, nil
		ru.held.Since = since
		return
	case r != nil && (ru.mild == nil || r.worse(ru.mild)):
		ru.mild = r
	}
	if ru.held.State == Healthy || now.Sub(ru.last) < cfg.Fall {
		return
	}
	since := ru.held.Since
	ru.held, ru.last = Reason{Weight: 1, TP: true}, now
	if ru.mild != nil {
		ru.held, ru.held.Since = *ru.mild, since
	}
	ru.mild = nil
}
