package worker

import (
	"math"
	"time"
)

// check compares a rank's reports with this router's account. Load.mu guards it.
type check struct {
	now, before peaks // since the last report, and between the two before

	used     FieldCheck
	usedSaid int64 // when it was set aside
	usedAt   time.Time

	pool poolCheck
	told int64 // used tokens of the last report
	// How often a field was set aside.
	timesUsed, timesSpeed uint64

	// Prompt tokens a second by the rank's own counters; 0: it has computed too few.
	claimed  float64
	proved   float64 // share of rateChunks that it has computed
	similar  float64 // see SpeedBasis
	samples  [maxSamples]SpeedSample
	nSamples int // ever
	// Shortest time to a first byte in seconds, without work for the GPU; it rises slowly.
	floor   float64
	why     string // the speed is set aside; "": it is not
	speedAt time.Time
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
	*c = check{now: c.now, before: c.before, similar: c.similar, timesUsed: c.timesUsed, timesSpeed: c.timesSpeed, pool: poolCheck{times: c.pool.times}}
}

// note must follow each step that adds work.
func (c *check) note(p peaks) { c.now.add(p) }

// checkPool compares the reported pool with the rank's events.
func (c *check) checkPool(now time.Time, r PoolContent) {
	most := c.now
	most.add(c.before)
	c.pool.observe(now, r, max(c.told, most.held))
}

// checkUsed compares a report's used tokens with the requests that could hold them; own is the
// router's account now.
func (c *check) checkUsed(now time.Time, r *Report, own peaks) {
	most := c.now
	most.add(c.before)
	c.before, c.now = c.now, own
	if c.used.Add(seconds(now), findUsed(r, most)) {
		c.usedAt, c.usedSaid = now, r.Used
		if c.used.Aside() {
			c.timesUsed++
		}
	}
}

// dispatched is the state at a request's dispatch, with which its first byte is compared.
type dispatched struct {
	at     time.Time
	work   int64 // tokens that the rank had to compute before the request was sent
	sent   int64 // that were ever sent before
	counts bool  // the first byte is evidence of the rank's speed
	exact  bool
}

// sampleShare of a chunk is the least that a prompt must compute to show a speed: policy.Speed
// needs as much.
const sampleShare = 2

// FirstToken notes the first byte of a streamed answer: the prompt is prefilled, and nothing
// else of the request was computed. FirstByte or End must follow.
func (l *Lease) FirstToken(now time.Time) {
	took := now.Sub(l.watch.at).Seconds()
	if l.load == nil || l.started || took <= 0 {
		return
	}
	load := l.load
	load.mu.Lock()
	defer load.mu.Unlock()
	c := &load.check
	if c.floor == 0 || took < c.floor {
		c.floor = took
	} else {
		c.floor *= 1.01
	}
	if !l.watch.counts {
		return
	}
	// A time of which only long prompts are known may be their prefill, too: no more than half of
	// it is not.
	work := l.watch.work + load.sentAll() - l.watch.sent
	g := SpeedSample{Most: float32(float64(max(work, l.tokens)) / (took - min(c.floor, took/2)))}
	if l.watch.exact {
		g.Least = float32(float64(l.tokens) / took)
	}
	c.samples[c.nSamples%maxSamples] = g
	c.nSamples++
	load.published.begin()
	load.published.setRate(c.speed(now))
	load.published.end()
}

// speed returns the speed that choices use, and notes whether the reported one is set aside.
func (c *check) speed(now time.Time) float64 {
	claimed := c.claimed
	switch {
	case claimed == 0:
		claimed = c.similar
	case claimed < c.similar:
		claimed = 1 / (c.proved/claimed + (1-c.proved)/c.similar)
	}
	speed, why := c.believe(claimed, c.similar)
	if (why == "") != (c.why == "") {
		c.speedAt = now
		if why != "" {
			c.timesSpeed++
		}
	}
	c.why = why
	return speed
}

func (c *check) believe(claimed, similar float64) (speed float64, why string) {
	return BelieveSpeed(claimed, SpeedBasis{Samples: c.samples[:min(c.nSamples, maxSamples)], Similar: similar, Aside: c.why != ""})
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

// OwnSpeed returns the rank's speed by its own counters and first bytes alone; 0 is unknown.
func (l *Load) OwnSpeed() float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	speed, _ := l.check.believe(l.check.claimed, 0)
	return speed
}

// SetAside lists the fields of the rank's reports that are set aside.
func (l *Load) SetAside() (all []Aside) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := &l.check
	if c.used.Aside() {
		all = append(all, Aside{AsideUsed, whyUsed, c.usedAt, float64(c.usedSaid), float64(l.used())})
	}
	if p := &c.pool; p.field.Aside() {
		all = append(all, Aside{AsidePool, p.why, p.at, float64(p.reported), float64(p.believed(p.reported))})
	}
	if c.why != "" {
		all = append(all, Aside{AsideSpeed, c.why, c.speedAt, c.claimed, math.Float64frombits(l.published.rate.Load())})
	}
	if w := &l.word; w.check.Aside() {
		all = append(all, Aside{AsidePeers, whyRogue, w.asideAt, float64(w.claimed.InFlight), 0})
	}
	return all
}

// TimesAside returns how often each field of the rank's reports was set aside.
func TimesAside(l *Load) map[string]uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := &l.check
	return map[string]uint64{AsideUsed: c.timesUsed, AsidePool: c.pool.times, AsideSpeed: c.timesSpeed, AsidePeers: l.word.times}
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
func findPool(c PoolContent, pool, used int64) Finding {
	spare := pool / spareShare
	switch {
	case pool <= 0:
		return Silent
	case c.Tokens > pool+spare:
		return Contradict
	case !c.Evicting:
		return Silent
	case c.Tokens+used+spare < pool:
		return Contradict
	}
	return Agrees
}

// poolCheck compares a rank's pool with its events. Load.mu guards it.
type poolCheck struct {
	field    FieldCheck
	reported int64
	// The most cached tokens since the last doubt: the pool has at least so many, and little more,
	// since pages that are computed are cached.
	seen  int64
	why   string
	at    time.Time
	times uint64 // that the pool was set aside
}

// Reasons for which a pool is set aside.
const (
	whyPoolSmall = "its events name more cached tokens than the reported pool has"
	whyPoolLarge = "it evicts pages while the reported pool has room"
)

// observe takes the pool's content.
func (p *poolCheck) observe(now time.Time, c PoolContent, used int64) {
	found := findPool(c, p.reported, used)
	if c.Evicting || found == Contradict {
		p.seen = max(p.seen, c.Tokens)
	}
	if found == Agrees && !p.field.Aside() {
		p.seen = 0
	}
	if !p.field.Add(seconds(now), found) {
		return
	}
	p.at = now
	if p.field.Aside() {
		p.times++
		if p.why = whyPoolLarge; c.Tokens > p.reported {
			p.why = whyPoolSmall
		}
	}
}

// believed returns the pool to choose by.
func (p *poolCheck) believed(reported int64) int64 {
	if p.field.Aside() && p.seen > 0 {
		return p.seen
	}
	return reported
}
