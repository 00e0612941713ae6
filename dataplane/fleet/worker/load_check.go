package worker

import (
	"time"
)

// check compares a rank's reports with this router's account. Load.mu guards it.
type check struct {
	now, before peaks // since the last report, and between the two before

	used     FieldCheck
	usedSaid int64 // when it was set aside
	usedAt   time.Time

	pool     poolCheck
	told     int64 // used tokens of the last report
	asideFor times

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

// times count how often a field was set aside.
type times struct{ used, speed uint64 }

// peaks are the largest values of Account's fields of these names.
type peaks struct{ flight, pending, held int64 }

func (p *peaks) add(o peaks) {
	p.flight, p.pending, p.held = max(p.flight, o.flight), max(p.pending, o.pending), max(p.held, o.held)
}

// forget drops the state of a process that is gone.
func (c *check) forget() {
	*c = check{now: c.now, before: c.before, similar: c.similar, asideFor: c.asideFor, pool: poolCheck{times: c.pool.times}}
}

// note must follow each step that adds work.
func (c *check) note(p peaks) { c.now.add(p) }

// checkPool compares the reported pool with the rank's events.
func (c *check) checkPool(now time.Time, r PoolContent) {
	most := c.now
	most.add(c.before)
	c.pool.observe(now, PoolAccount{PoolContent: r, Pool: c.pool.reported, Used: c.told, Held: most.held})
}

// checkUsed compares a report's used tokens with the requests that could hold them; own is the
// router's account now.
func (c *check) checkUsed(now time.Time, r *Report, own peaks) {
	most := c.now
	most.add(c.before)
	c.before, c.now = c.now, own
	found := FindUsed(Account{
		Running: r.Running, Waiting: r.Waiting, Queued: r.Queued, Used: r.Used, Pool: r.Pool,
		Flight: most.flight, Pending: most.pending, Held: most.held,
	})
	if c.used.Add(seconds(now), found) {
		c.usedAt, c.usedSaid = now, r.Used
		if c.used.Aside() {
			c.asideFor.used++
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
	work := l.watch.work + load.sent.Load() + load.peers.sent.Load() - l.watch.sent
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
	speed, why := BelieveSpeed(claimed, SpeedBasis{Samples: c.samples[:min(c.nSamples, maxSamples)], Similar: c.similar, Aside: c.why != ""})
	if (why == "") != (c.why == "") {
		c.speedAt = now
		if why != "" {
			c.asideFor.speed++
		}
	}
	c.why = why
	return speed
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
)

const whyUsed = "more KV tokens in use than the requests there can hold"
