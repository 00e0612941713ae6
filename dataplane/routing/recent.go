package routing

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/dataplane/routing/policy"
)

const (
	// keptChoices bounds the memory: some 400 bytes a candidate, 25 MB with 1,000 ranks.
	keptChoices = 64
	// keepEvery is the time between kept choices where requests are many: with 1,000 ranks a copy
	// has some 400 KB, which is little four times a second and much a thousand times.
	keepEvery = 250 * time.Millisecond
	// keepAtOnce is the number of choices in a row that are kept after a pause: where requests are
	// few, all are kept.
	keepAtOnce = 16
	// keptName bounds the bytes of a request's name, which clients choose.
	keptName = 128
)

// RecentChoice is a choice that Pick made.
type RecentChoice struct {
	Number     uint64 // among those that were kept, from 1
	At         time.Time
	Name       string // of the request
	Model      string
	Policy     string
	Candidates int
	Again      bool // after an attempt elsewhere had failed
	// Ranks and Decodes, of candidates alone, are filled in by Recent.Explain.
	Explanation
}

// recent keeps the last choices with all that they compared. A request never waits for a reader of
// them: its choice is left out. The memory of a place is used again, and grows with the candidates.
type recent struct {
	due    atomic.Int64 // unix nanoseconds until which kept choices were paid for
	number atomic.Uint64
	places [keptChoices]keptChoice
}

// keptChoice is the place of a choice.
type keptChoice struct {
	mu     sync.Mutex
	choice RecentChoice  // without Name and the explanation's lists; guarded by mu
	name   []byte        // guarded by mu
	begins beginning     // guarded by mu
	policy policy.Policy // guarded by mu
	facts  facts         // guarded by mu
}

// allow reports whether one more choice is kept at a time.
func (k *recent) allow(now int64) bool {
	due := k.due.Load()
	next := max(due, now) + int64(keepEvery)
	return next <= now+keepAtOnce*int64(keepEvery) && k.due.CompareAndSwap(due, next)
}

// keep copies a choice, if it is this one's turn.
func (k *recent) keep(f *facts, p *Prompt, d *Decision, req policy.Request, by policy.Policy, again bool) {
	if !k.allow(f.now) {
		return
	}
	number := k.number.Add(1)
	c := &k.places[number%keptChoices]
	if !c.mu.TryLock() {
		return
	}
	defer c.mu.Unlock()
	c.policy, c.name = by, append(c.name[:0], p.Name[:min(len(p.Name), keptName)]...)
	c.choice = RecentChoice{
		Number: number, At: time.Unix(0, f.now), Model: f.ranks[0].Worker.Info().Model(), Policy: by.Name(),
		Candidates: len(f.ranks), Again: again,
		Explanation: Explanation{Request: req, Decision: Decision{
			Rank: d.Rank, Decode: d.Decode, Cached: d.Cached, Predicted: d.Predicted, Exact: d.Exact, Overruled: d.Overruled,
			Source: d.Source, Choice: d.Choice, DecodeChoice: d.DecodeChoice,
		}},
	}
	c.begins.keep(p, c.choice.Model, pageSize(d.Rank.Worker.Info()))
	c.facts.copy(f)
}

// copy copies all that explainCandidates and explainPairs read.
func (f *facts) copy(from *facts) {
	f.alone, f.now = from.alone, from.now
	f.ranks, f.decodes = append(f.ranks[:0], from.ranks...), append(f.decodes[:0], from.decodes...)
	f.candidates, f.overlaps = append(f.candidates[:0], from.candidates...), append(f.overlaps[:0], from.overlaps...)
	f.credits, f.loads = append(f.credits[:0], from.credits...), append(f.loads[:0], from.loads...)
	f.approx.sources = append(f.approx.sources[:0], from.approx.sources...)
	to, pair := &f.pair, &from.pair
	if to.decodes, to.loads = to.decodes[:0], to.loads[:0]; len(from.decodes) == 0 {
		return // from.pair is of an earlier choice
	}
	to.decodes, to.loads = append(to.decodes, pair.decodes...), append(to.loads, pair.loads...)
	to.first, to.second, to.links = pair.first, pair.second, pair.links
	to.prefillNodes, to.decodeNodes = append(to.prefillNodes[:0], pair.prefillNodes...), append(to.decodeNodes[:0], pair.decodeNodes...)
}

// read calls show with each kept choice, the newest first, until it returns false.
func (k *recent) read(show func(*keptChoice, RecentChoice) bool) {
	last := k.number.Load()
	for n := last; n > 0 && n+keptChoices > last; n-- {
		c := &k.places[n%keptChoices]
		c.mu.Lock()
		choice := c.choice
		choice.Name = string(c.name)
		// A choice that found its place locked is not there.
		more := choice.Number != n || show(c, choice)
		c.mu.Unlock()
		if !more {
			return
		}
	}
}

// Recent returns choices of Pick, the newest first: all of them where they are few, a part of them
// where they are more than four a second.
func (r *Router) Recent() []RecentChoice {
	var all []RecentChoice
	r.recent.read(func(_ *keptChoice, choice RecentChoice) bool {
		all = append(all, choice)
		return true
	})
	return all
}

// ExplainRecent returns a choice of Recent with its candidates as they were; false where later ones
// have taken its place.
func (r *Router) ExplainRecent(number uint64) (out RecentChoice, found bool) {
	r.recent.read(func(c *keptChoice, choice RecentChoice) bool {
		if choice.Number == number {
			out, found = choice, true
			out.Options = optionsOf(c.policy)
			explainCandidates(&out.Explanation, &c.facts, c.policy)
			explainPairs(&out.Explanation, &c.facts)
		}
		return !found
	})
	return out, found
}

// optionsOf returns the options of costs for a policy.
func optionsOf(p policy.Policy) policy.Options {
	if kv, ok := policy.Unwrap(p).(policy.KV); ok {
		return kv.Options
	}
	return policy.Defaults
}
