package worker

import (
	"math"
	"time"
)

// check compares a rank's reports with this router's account. Load.mu guards it.
type check struct {
	now, before peaks // since the last report, and between the two before

	used  usedCheck
	pool  poolCheck
	speed speedCheck
}

// usedCheck compares the tokens that a rank uses of its pool with its requests.
type usedCheck struct {
	field fieldCheck
	told  int64 // of the last report
	said  int64 // when it was set aside
}

// peaks are the largest values since the report before the last, because a report is older than its
// arrival.
type peaks struct {
	flight  int64 // requests dispatched and not ended
	pending int64 // prompt tokens that the rank must compute for requests without a first byte
	// The most KV tokens that all of flight can hold: whole prompts and answers of the largest
	// length.
	held int64
}

func (p *peaks) add(o peaks) {
	p.flight, p.pending, p.held = max(p.flight, o.flight), max(p.pending, o.pending), max(p.held, o.held)
}

// forget drops the state of a process that is gone.
func (c *check) forget() {
	c.used.field.forget()
	c.used = usedCheck{field: c.used.field}
	c.pool.forget(0)
	c.speed.forget()
}

// note must follow each step that adds work.
func (c *check) note(p peaks) { c.now.add(p) }

// checkPool compares the reported pool with the rank's events.
func (c *check) checkPool(now time.Time, r PoolContent) {
	most := c.now
	most.add(c.before)
	c.pool.observe(now, r, max(c.used.told, most.held))
}

// checkUsed compares a report's used tokens with the requests that could hold them; own is the
// router's account now.
func (c *check) checkUsed(now time.Time, r *Report, own peaks) {
	most := c.now
	most.add(c.before)
	c.before, c.now = c.now, own
	if c.used.field.add(now, findUsed(r, most)) {
		c.used.said = r.Used
	}
}

// Aside is a field of a rank's reports that is set aside.
type Aside struct {
	Field    string // one of those below
	Why      string
	Since    time.Time
	Reported float64 // then, of used tokens; now, of the speed in tokens a second
	Instead  float64 // the value that choices use
}

// Fields of Aside.
const (
	AsideUsed  = "used_tokens"
	AsidePool  = "pool_tokens"
	AsideSpeed = "prefill_tokens_per_second"
	AsidePeers = "requests_of_other_routers" // their word, by the rank's reports
)

const (
	whyUsed  = "more KV tokens in use than the requests there can hold"
	whyRogue = "other routers claim requests again and again that no report shows"
)

// ownSpeed returns the rank's speed by its own counters and first bytes alone; 0 is unknown.
func (l *Load) ownSpeed() float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	speed, _ := l.check.speed.believe(l.check.speed.claimed, 0)
	return speed
}

// SetAside lists the fields of the rank's reports that are set aside.
func (l *Load) SetAside() (all []Aside) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := &l.check
	if u := &c.used; u.field.aside {
		all = append(all, Aside{AsideUsed, whyUsed, u.field.at, float64(u.said), float64(l.used())})
	}
	if p := &c.pool; p.field.aside {
		all = append(all, Aside{AsidePool, p.why, p.field.at, float64(p.reported), float64(p.believed(p.reported))})
	}
	if s := &c.speed; s.why != "" {
		all = append(all, Aside{AsideSpeed, s.why, s.at, s.claimed, math.Float64frombits(l.published.rate.Load())})
	}
	if w := &l.word; w.check.aside {
		all = append(all, Aside{AsidePeers, whyRogue, w.check.at, float64(w.claimed.InFlight), 0})
	}
	return all
}

// TimesAside returns how often each field of the rank's reports was set aside.
func (l *Load) TimesAside() map[string]uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := &l.check
	return map[string]uint64{AsideUsed: c.used.field.times, AsidePool: c.pool.field.times, AsideSpeed: c.speed.times, AsidePeers: l.word.check.times}
}

// PoolContent is the content of a rank's KV pool by its events.
type PoolContent struct {
	Tokens int64 // of cached pages, before the evictions of the last batch of events
	// Evicting: that batch removed pages, which SGLang does only where the pool has too little room
	// for a request.
	Evicting bool
}

// findPool compares a reported pool with its content, and with the tokens that are used of it or
// may be held. A rank whose pool is smaller than reported looks empty while it evicts, and prompts
// follow overlap that is gone; one whose pool is larger looks full while it has room.
func findPool(c PoolContent, pool, used int64) finding {
	spare := pool / spareShare
	switch {
	case pool <= 0:
		return silent
	case c.Tokens > pool+spare:
		return contradicts
	case !c.Evicting:
		return silent
	case c.Tokens+used+spare < pool:
		return contradicts
	}
	return agrees
}

// poolCheck compares a rank's pool with its events. Load.mu guards it.
type poolCheck struct {
	field    fieldCheck
	reported int64
	// The most cached tokens since the last doubt: the pool has at least so many, and little more,
	// since pages that are computed are cached.
	seen int64
	why  string
}

// forget starts over, with a reported pool.
func (p *poolCheck) forget(reported int64) {
	p.field.forget()
	*p = poolCheck{field: p.field, reported: reported}
}

// Reasons for which a pool is set aside.
const (
	whyPoolSmall = "its events name more cached tokens than the reported pool has"
	whyPoolLarge = "it evicts pages while the reported pool has room"
)

// observe takes the pool's content.
func (p *poolCheck) observe(now time.Time, c PoolContent, used int64) {
	found := findPool(c, p.reported, used)
	if c.Evicting || found == contradicts {
		p.seen = max(p.seen, c.Tokens)
	}
	if found == agrees && !p.field.aside {
		p.seen = 0
	}
	if p.field.add(now, found) && p.field.aside {
		if p.why = whyPoolLarge; c.Tokens > p.reported {
			p.why = whyPoolSmall
		}
	}
}

// believed returns the pool to choose by.
func (p *poolCheck) believed(reported int64) int64 {
	if p.field.aside && p.seen > 0 {
		return p.seen
	}
	return reported
}
