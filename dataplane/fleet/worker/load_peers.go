package worker

import (
	"math"
	"time"

	"github.com/warmpath/warmpath/dataplane/routing/policy"
)

// peerWord is the load that other routers claim for a rank, and the part of it that the rank's
// reports refute. The holder of a router's token can claim anything: reports outweigh it. Load.mu
// guards it.
//
// Requests that are claimed for peerWindow while no report has so many count no more; the next
// window judges anew. Claims that grow and shrink between reports are set aside as a whole, as a
// field of a report is: then reports alone tell of the requests of other routers.
type peerWord struct {
	claimed RouterLoad // by all of them; Sent is not used
	refuted RouterLoad // of these; peers of Load has the rest
	check   fieldCheck

	// Without reports, for how long they have claimed more than their part of prompts.
	above             bool
	aboveFor, aboveAt float64

	// Of the present window.
	since     float64
	reports   int
	low, peak RouterLoad // of claimed
	own       int64      // the least requests of this router
	most      int64      // the most requests of a report
	queued    int64      // the most queued tokens of a report
	prefilled int64      // of the first report
	computed  int64      // tokens that are claimed to be computed
}

const (
	peerWindow = 1 // seconds; ranks report once a second
	// peerSpare and peerTimes bound requests that begin and end between two reports.
	peerSpare, peerTimes = 64, 4
	// peerPending is the time in seconds of claimed prompts that the rank computes: the queue that
	// it reports has the others only. Without a speed it is peerTokens.
	peerPending, peerTokens = 10, 1 << 17
	// The most of a router at one rank, and of one request.
	maxPeerRequests, maxPrompt = 1 << 16, 1 << 20
	// At a rank without reports the requests of other routers count up to their equal part and
	// claimSpare more, since chance gives a router so many more or less. claimTokens is the same
	// for tokens of prompts and of pages; for prompts it holds claimFor seconds.
	claimSpare, claimTokens, claimFor = 8, usualChunk, 2
)

// SetRouters sets the number of routers that share the rank; 0 is one.
func (l *Load) SetRouters(n int) { l.routers.Store(int64(n)) }

// boundClaims bounds the claims of other routers at a rank whose reports do not tell of them: each
// counts for no more than this router, and all for a little more. So a router that claims a rank
// for itself leaves it to the others, each with its equal part.
func (l *Load) boundClaims(v *LoadView, b *policy.Backlog, at float64) {
	v.Routers = max(l.routers.Load(), 2)
	others, own := v.Routers-1, l.own.inFlight.Load()
	v.Claimed = min(v.InFlight-own, others*own+claimSpare)
	v.InFlight = own + v.Claimed
	v.Waiting = min(v.Waiting, l.own.waiting.Load()+v.Claimed)
	v.Used = min(v.Used, v.Routers*l.own.used.Load()+claimTokens)
	most := v.Routers * l.own.pending.Load()
	if at < math.Float64frombits(l.claimed.Load()) {
		most += claimTokens
	}
	b.Own = min(b.Own, float64(most))
}

// claim notes whether other routers claim more of the rank's prompts than their part, after a
// change. They can for claimFor, and again after several times as long without.
func (l *Load) claim(at float64) {
	w := &l.word
	if since := max(at-w.aboveAt, 0); w.above {
		w.aboveFor = min(w.aboveFor+since, claimFor)
	} else {
		w.aboveFor = max(w.aboveFor-since/peerTimes, 0)
	}
	others := max(l.routers.Load(), 2) - 1
	w.aboveAt, w.above = at, l.peers.pending.Load() > others*l.own.pending.Load()
	l.claimed.Store(math.Float64bits(at + claimFor - w.aboveFor))
}

// plausible bounds a claim.
func (s *RouterLoad) plausible() {
	s.InFlight = min(s.InFlight, maxPeerRequests)
	s.Waiting = min(s.Waiting, s.InFlight)
	s.Pending = min(s.Pending, s.Waiting*maxPrompt)
	s.Used, s.Held = min(s.Used, 2*s.InFlight*maxPrompt), min(s.Held, 2*s.InFlight*maxPrompt)
}

// combine changes all of s but Sent.
func (s *RouterLoad) combine(o *RouterLoad, f func(a, b int64) int64) {
	s.InFlight, s.Waiting, s.Pending = f(s.InFlight, o.InFlight), f(s.Waiting, o.Waiting), f(s.Pending, o.Pending)
	s.Used, s.Held = f(s.Used, o.Used), f(s.Held, o.Held)
}

func plus(a, b int64) int64   { return a + b }
func less(a, b int64) int64   { return a - b }
func lower(a, b int64) int64  { return min(a, b) }
func higher(a, b int64) int64 { return max(a, b) }

// believed returns the claims that count.
func (w *peerWord) believed() RouterLoad {
	b := w.claimed
	b.combine(&w.refuted, less)
	b.Sent = 0
	return b
}

// replace takes a change of the claims.
func (w *peerWord) replace(was, is *RouterLoad, own int64) {
	w.computed += max(is.Sent-was.Sent, 0) - (is.Pending - was.Pending)
	w.claimed.combine(was, less)
	w.claimed.combine(is, plus)
	w.low.combine(&w.claimed, lower)
	w.peak.combine(&w.claimed, higher)
	w.own = min(w.own, own)
	w.trim()
}

// trim keeps refuted a part of claimed.
func (w *peerWord) trim() {
	if w.refuted.combine(&w.claimed, lower); w.check.aside {
		w.refuted = w.claimed
	}
}

// report compares the claims with a report.
func (w *peerWord) report(now time.Time, r *Report, own int64, rate float64, chunk int) {
	at := seconds(now)
	w.reports++
	w.own, w.most, w.queued = min(w.own, own), max(w.most, r.Running+r.Waiting), max(w.queued, r.Queued)
	if w.reports > 1 && at-w.since >= peerWindow {
		w.judge(now, r, rate, chunk)
	} else if w.since != 0 && at >= w.since {
		return
	}
	w.since, w.reports, w.low, w.peak, w.own = at, 1, w.claimed, w.claimed, own
	w.most, w.queued, w.prefilled, w.computed = r.Running+r.Waiting, r.Queued, r.Prefilled, 0
}

// judge ends a window.
func (w *peerWord) judge(now time.Time, r *Report, rate float64, chunk int) {
	prompts := w.queued + peerTokens
	if rate > 0 {
		prompts = w.queued + int64(peerPending*rate)
	}
	found := agrees
	switch prefilled := r.Prefilled - w.prefilled; {
	case w.peak.InFlight == 0 && w.computed == 0:
		found = silent
	case w.peak.InFlight > peerSpare+peerTimes*w.most, w.peak.Pending > peerTimes*prompts,
		r.Prefilled > 0 && prefilled >= 0 && w.computed > peerTimes*prefilled+int64(chunk/2):
		found = contradicts
	}
	w.check.add(now, found)
	w.refuted = RouterLoad{InFlight: min(max(w.low.InFlight+w.own-w.most, 0), w.low.InFlight)}
	if w.refuted.InFlight > 0 {
		share := float64(w.refuted.InFlight) / float64(w.low.InFlight)
		w.refuted.combine(&w.low, func(_, low int64) int64 { return int64(float64(low) * share) })
	}
	w.refuted.Pending = max(w.refuted.Pending, w.low.Pending-prompts)
	w.trim()
}

// ReplacePeer replaces the load that another router claims by its present one. Requests that it
// dispatched and began count as this router's: in the backlog, and on top of the rank's reports
// until those include them.
func (l *Load) ReplacePeer(now time.Time, was, is RouterLoad) {
	was.plausible()
	is.plausible()
	if was == is {
		return
	}
	at := seconds(now)
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.word.believed()
	l.word.replace(&was, &is, l.own.inFlight.Load())
	d := l.word.believed()
	d.combine(&before, less)
	if d.Sent = min(max(is.Sent-was.Sent, 0), max(d.Pending, 0)+maxPrompt); l.word.check.aside {
		d.Sent = 0
	}
	begun := d.Sent - d.Pending
	if begun < 0 { // a share was lost
		d.Sent, begun = d.Sent-begun, 0
	}
	l.published.begin()
	l.peers.add(&d)
	l.sentByPeer(at, d.Sent)
	if begun > 0 {
		l.backlog.Begun(at, float64(begun))
	}
	l.claim(at)
	l.published.store(&l.backlog)
	l.published.end()
	l.check.note(l.peaks())
}

// sentByPeer counts tokens that another router has sent, between begin and end. No claim holds the
// rank to be computing for long, and none does without reports.
func (l *Load) sentByPeer(at float64, tokens int64) {
	s, rate := &l.published, l.rate()
	if tokens > 0 {
		told := l.backlog.Told
		l.backlog.Sent(at, float64(tokens))
		most := l.backlog.Own + float64(s.queued.Load()) + rate*(max(at-l.backlog.At, 0)+peerPending)
		l.backlog.Told = min(l.backlog.Told, max(told, most))
		if at-math.Float64frombits(s.at.Load()) < reportFor {
			s.prefill(at, tokens, false)
		}
	}
	if rate > 0 {
		end := at + float64(l.own.pending.Load())/rate*(1+slackShare) + peerPending
		s.computed.Store(math.Float64bits(min(math.Float64frombits(s.computed.Load()), end)))
	}
}

// rate is the speed by which choices go; 0 is unknown.
func (l *Load) rate() float64 { return math.Float64frombits(l.published.rate.Load()) }

// reportOnPeers compares the claims of other routers with a report, between begin and end.
func (l *Load) reportOnPeers(now time.Time, r *Report) {
	before := l.word.believed()
	l.word.report(now, r, l.own.inFlight.Load(), l.rate(), chunkOf(&l.speed))
	d := l.word.believed()
	d.combine(&before, less)
	l.peers.add(&d)
	l.backlog.Own = max(l.backlog.Own+float64(d.Pending), 0)
}

// PeersInFlight returns the requests of other routers, as far as the rank's reports bear them out.
func (l *Load) PeersInFlight() int64 { return l.peers.inFlight.Load() }
