package worker

import "slices"

// Finding is the result of a comparison of a report with the router's own account of a rank.
type Finding uint8

// Findings.
const (
	Silent     Finding = iota // the account proves nothing
	Unseen                    // the rank has requests that the account does not know
	Agrees                    // the account explains the report
	Contradict                // no request explains the report
)

const (
	// spareShare of the pool is the tolerance of a comparison of used tokens: speculative
	// decoding, page rounding and HiCache's locks hold some that belong to no prompt. A report
	// that is wrong by less changes kv's cost by 60 ms.
	spareShare = 8
	// unknownAnswer bounds an answer without a limit in its request. Reasoning models write tens
	// of thousands of tokens.
	unknownAnswer = 1 << 16
	// unknownPrompt bounds the error of an estimate: an image is a few bytes of URL and
	// thousands of tokens.
	unknownPrompt = 1 << 16
)

// findUsed compares the KV tokens in use with the requests that could hold them. SGLang counts
// pages that requests hold, not cached pages that it can evict; a worker that counts those too
// looks full for good, and gets no prompt that its cache has.
//
// own are the requests that this router knows at the rank: its own and its peers'.
func findUsed(r *Report, own peaks) Finding {
	spare := r.Pool / spareShare
	switch {
	case r.Pool <= 0:
		return Silent
	case r.Running+r.Waiting > own.flight || r.Queued > own.pending+spare:
		return Unseen
	case r.Used > own.held+spare:
		return Contradict
	case own.held+spare <= r.Pool/2:
		return Agrees
	}
	return Silent // the requests could fill most of the pool
}

const (
	// asideReports in a row, over asideSeconds, must contradict before a field is set aside: a
	// report that crosses a request on the wire does so once. The same number must agree before
	// it is believed again.
	asideReports = 3
	asideSeconds = 3
	// asideLongest bounds how long a rank must be right that was set aside again and again.
	asideLongest = 300 // seconds
)

// FieldCheck decides over several findings whether a field is set aside. The zero value
// believes. Times are seconds of any clock.
type FieldCheck struct {
	aside bool
	times int     // that it was set aside
	n     int     // findings in a row against the present state
	since float64 // of the first of them
}

// Aside reports whether the field is set aside.
func (d *FieldCheck) Aside() bool { return d.aside }

// Add takes one finding and reports whether it changed the decision.
func (d *FieldCheck) Add(at float64, f Finding) (changed bool) {
	against, need := Contradict, float64(asideSeconds)
	if d.aside {
		against, need = Agrees, min(asideSeconds*float64(int(1)<<min(d.times-1, 10)), asideLongest)
	}
	switch {
	case f == Silent || (d.aside && f == Unseen):
		return false
	case f != against:
		d.n = 0
		return false
	}
	if d.n == 0 || at < d.since { // also a clock that was set back
		d.n, d.since = 0, at
	}
	if d.n++; d.n < asideReports || at-d.since < need {
		return false
	}
	d.aside, d.n = !d.aside, 0
	if d.aside {
		d.times++
	}
	return true
}

// SpeedSample is the evidence of one first byte on a rank's prefill speed, in tokens a second.
// The speed lies between the two, unless the rank has requests that no router knows, or cached
// more of the prompt than its events say.
type SpeedSample struct {
	Least float32 // by the request's own uncached tokens; 0: not known
	Most  float32 // by all tokens that the rank had to compute meanwhile
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

// SpeedBasis is the evidence that a reported speed is compared with.
type SpeedBasis struct {
	Samples []SpeedSample // the last ones, in any order
	// Median speed of the other ranks with the same model and role; 0: not known.
	Similar float64
	Aside   bool // the speed is set aside now
}

// Reasons for which a speed is set aside.
const (
	whyFast  = "first bytes come later than the reported speed allows"
	whySlow  = "first bytes come sooner than the reported speed allows"
	whyPeers = "no first byte has shown a speed so far above that of equal workers"
)

// BelieveSpeed returns the speed to choose by, and why it is not the reported one; "" where it
// is. A reported speed is the ratio of two counters of the rank. First bytes decide where there
// are enough of them: GPUs may differ. Without them a rank may be plausible times as fast as
// its peers: more would draw all prompts to a rank that is only wrong.
func BelieveSpeed(reported float64, on SpeedBasis) (speed float64, why string) {
	if !(reported > 0) {
		return 0, ""
	}
	n, fast, slow, lower := len(on.Samples), 0, 0, 0
	above, below := float64(plausible), float64(plausible)
	if on.Similar > 0 && reported > different*on.Similar {
		above = different
	} else if reported*different < on.Similar {
		below = different
	}
	for _, g := range on.Samples {
		if float64(g.Most)*above < reported {
			fast++
		}
		if g.Least > 0 {
			lower++
			if float64(g.Least) > reported*below {
				slow++
			}
		}
	}
	share := wrongShare
	if on.Aside {
		share = believeShare
	}
	switch {
	case n >= minSamples && float64(fast) >= share*float64(n):
		return on.equal(quartile(on.Samples, func(g SpeedSample) float32 { return -g.Most })), whyFast
	case lower >= minSamples && float64(slow) >= share*float64(lower):
		return on.equal(quartile(on.Samples, func(g SpeedSample) float32 { return g.Least })), whySlow
	case n >= minSamples && 2*fast < n:
		return reported, "" // first bytes confirm it
	case on.Similar > 0 && reported > plausible*on.Similar:
		return plausible * on.Similar, whyPeers
	}
	return reported, ""
}

// equal returns the speed of similar ranks where the samples show about that: it is known
// better.
func (on *SpeedBasis) equal(seen float64) float64 {
	if on.Similar > 0 && seen < different*on.Similar && seen*different > on.Similar {
		return on.Similar
	}
	return seen
}

// quartile returns the number at a quarter of the order of keys that are not 0, without their
// sign.
func quartile(all []SpeedSample, key func(SpeedSample) float32) float64 {
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
