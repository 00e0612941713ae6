package worker

import (
	"slices"
	"time"
)

// speedSample is the evidence of one first byte on a rank's prefill speed, in tokens a second.
// The speed lies between the two, unless the rank has requests that no router knows, or cached
// more of the prompt than its events say.
type speedSample struct {
	least float32 // by the request's own uncached tokens; 0: not known
	most  float32 // by all tokens that the rank had to compute meanwhile
}

const (
	// maxSamples is how many of the last ones count, minSamples how many there must be.
	maxSamples, minSamples = 16, 8
	// wrongShare of the samples must contradict a speed before it is set aside; at most
	// believeShare may do so when it is believed again.
	wrongShare, believeShare = 0.75, 0.5
	// plausible is the ratio by which a speed may differ from a sample: jitter of decode steps
	// and of the network, requests that join the batch, attention over long prompts.
	plausible = 4
	// different is the ratio between equal GPUs that needs no first byte so far off: a speed that
	// differs by more from that of the peers must differ by less from that of the first bytes.
	different = 2
)

// speedCheck compares a rank's prefill speed with its first bytes. Load.mu guards it.
type speedCheck struct {
	// Prompt tokens a second by the rank's own counters; 0: it has computed too few.
	claimed float64
	proved  float64 // share of rateChunks that it has computed
	similar float64 // median of the other ranks with the same model and role; 0: not known
	samples [maxSamples]speedSample
	seen    int // samples ever
	// Shortest time to a first byte in seconds, without work for the GPU; it rises slowly.
	floor float64
	why   string // the speed is set aside; "": it is not
	at    time.Time
	times uint64 // that it was set aside
}

// forget starts over: the rank's process is another one.
func (c *speedCheck) forget() { *c = speedCheck{similar: c.similar, times: c.times} }

// believed returns the speed that choices use, and notes whether the claimed one is set aside.
func (c *speedCheck) believed(now time.Time) float64 {
	claimed := c.claimed
	switch {
	case claimed == 0:
		claimed = c.similar
	case claimed < c.similar:
		claimed = 1 / (c.proved/claimed + (1-c.proved)/c.similar)
	}
	speed, why := c.believe(claimed, c.similar)
	if (why == "") != (c.why == "") {
		c.at = now
		if why != "" {
			c.times++
		}
	}
	c.why = why
	return speed
}

// Reasons for which a speed is set aside.
const (
	whyFast  = "first bytes come later than the reported speed allows"
	whySlow  = "first bytes come sooner than the reported speed allows"
	whyPeers = "no first byte has shown a speed so far above that of equal workers"
)

// believe returns the speed to choose by where a rank claims one, and why it is not that one; ""
// where it is. similar is the median speed of the other ranks with the same model and role, 0
// unknown. A claimed speed is the ratio of two counters of the rank. First bytes decide where there
// are enough of them: GPUs may differ. Without them a rank may be plausible times as fast as its
// peers: more would draw all prompts to a rank that is only wrong.
func (c *speedCheck) believe(claimed, similar float64) (speed float64, why string) {
	if !(claimed > 0) {
		return 0, ""
	}
	samples := c.samples[:min(c.seen, maxSamples)]
	n, fast, slow, lower := len(samples), 0, 0, 0
	above, below := float64(plausible), float64(plausible)
	if similar > 0 && claimed > different*similar {
		above = different
	} else if claimed*different < similar {
		below = different
	}
	for _, g := range samples {
		if float64(g.most)*above < claimed {
			fast++
		}
		if g.least > 0 {
			lower++
			if float64(g.least) > claimed*below {
				slow++
			}
		}
	}
	share := wrongShare
	if c.why != "" {
		share = believeShare
	}
	switch {
	case n >= minSamples && float64(fast) >= share*float64(n):
		return equalSpeed(quartile(samples, func(g speedSample) float32 { return -g.most }), similar), whyFast
	case lower >= minSamples && float64(slow) >= share*float64(lower):
		return equalSpeed(quartile(samples, func(g speedSample) float32 { return g.least }), similar), whySlow
	case n >= minSamples && 2*fast < n:
		return claimed, "" // first bytes confirm it
	case similar > 0 && claimed > plausible*similar:
		return plausible * similar, whyPeers
	}
	return claimed, ""
}

// equalSpeed returns the speed of similar ranks where the samples show about that: it is known
// better.
func equalSpeed(seen, similar float64) float64 {
	if similar > 0 && seen < different*similar && seen*different > similar {
		return similar
	}
	return seen
}

// quartile returns the number at a quarter of the order of keys that are not 0, without their
// sign.
func quartile(all []speedSample, key func(speedSample) float32) float64 {
	var room [maxSamples]float32
	keys := room[:0]
	for _, g := range all {
		if k := key(g); k != 0 {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return 0
	}
	slices.Sort(keys)
	return max(float64(keys[len(keys)/4]), -float64(keys[len(keys)/4]))
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
	c := &load.check.speed
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
	g := speedSample{most: float32(float64(max(work, l.tokens)) / (took - min(c.floor, took/2)))}
	if l.watch.exact {
		g.least = float32(float64(l.tokens) / took)
	}
	c.samples[c.seen%maxSamples] = g
	c.seen++
	load.published.begin()
	load.published.setRate(c.believed(now))
	load.published.end()
}
