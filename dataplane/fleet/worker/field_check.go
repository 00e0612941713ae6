package worker

import "time"

// finding is the result of a comparison of a report with the router's own account of a rank.
type finding uint8

const (
	silent      finding = iota // the account proves nothing
	unseen                     // the rank has requests that the account does not know
	agrees                     // the account explains the report
	contradicts                // no request explains the report
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
func findUsed(r *Report, own peaks) finding {
	spare := r.Pool / spareShare
	switch {
	case r.Pool <= 0:
		return silent
	case r.Running+r.Waiting > own.flight || r.Queued > own.pending+spare:
		return unseen
	case r.Used > own.held+spare:
		return contradicts
	case own.held+spare <= r.Pool/2:
		return agrees
	}
	return silent // the requests could fill most of the pool
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

// fieldCheck decides over several findings whether a field is set aside. The zero value believes.
type fieldCheck struct {
	aside bool
	falls int       // that it was set aside, of this process
	n     int       // findings in a row against the present state
	since float64   // of the first of them, in unix seconds
	at    time.Time // of the last change
	times uint64    // that it was ever set aside
}

// add takes one finding and reports whether it changed the decision.
func (d *fieldCheck) add(now time.Time, f finding) (changed bool) {
	against, need := contradicts, float64(asideSeconds)
	if d.aside {
		against, need = agrees, min(asideSeconds*float64(int(1)<<min(d.falls-1, 10)), asideLongest)
	}
	switch {
	case f == silent || (d.aside && f == unseen):
		return false
	case f != against:
		d.n = 0
		return false
	}
	at := seconds(now)
	if d.n == 0 || at < d.since { // also a clock that was set back
		d.n, d.since = 0, at
	}
	if d.n++; d.n < asideReports || at-d.since < need {
		return false
	}
	d.aside, d.n, d.at = !d.aside, 0, now
	if d.aside {
		d.falls++
		d.times++
	}
	return true
}

// forget starts over: the rank's process is another one.
func (d *fieldCheck) forget() { *d = fieldCheck{times: d.times} }
