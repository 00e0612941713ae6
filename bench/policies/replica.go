package policies

import (
	"github.com/warmpath/warmpath/dataplane/routing/policy"
	"github.com/warmpath/warmpath/dataplane/routing/session"
)

// replica is one router: its view of the caches, its own dispatches, which it knows at once,
// and the workers' last reports, which include other replicas' requests.
type replica struct {
	pick         policy.Policy
	view         *view    // by events
	trees        []*cache // approximate, of each worker; nil unless the policy has no events
	loads        []load
	candidates   candidates
	gate         *gate // nil: requests wait at workers only
	overlaps     []overlap
	tierView     *view     // of nodes' tiers; nil: they are not known
	tierOverlaps []overlap // by node
	turn         uint64
	prefix       adaptivePrefix
	inbox        []note // of other replicas, by time of arrival
	read         int
	alone        bool           // predicts no other replica's requests
	sessions     *session.Table // of its own requests
	answer       float64        // mean seconds from an answer's first token to its end
}

// foresee predicts the pages of another replica's request at its worker.
func (p *replica) foresee(n *note) {
	switch pages := int32(n.t.input / p.view.plan.page); {
	case p.trees != nil || p.alone:
	case n.kind == noteSent:
		p.view.predict(n.t.worker, n.t.path, pages, 1)
	case n.kind == noteEnded:
		p.view.predict(n.t.worker, n.t.path, pages, -1)
	}
}

type candidates []policy.Candidate

// note is a message to the other replicas: a request was sent, has begun or has ended.
type note struct {
	at   clock
	t    *task
	kind uint8
}

const (
	noteSent = iota
	noteBegun
	noteEnded
)

// take applies the notes that have arrived by now.
func (p *replica) take(now clock) {
	for p.read < len(p.inbox) && p.inbox[p.read].at <= now {
		n := &p.inbox[p.read]
		p.loads[n.t.worker].note(n.t, n.kind, n.at)
		p.foresee(n)
		p.read++
	}
	if p.read > 1024 && p.read*2 > len(p.inbox) {
		p.inbox = p.inbox[:copy(p.inbox, p.inbox[p.read:])]
		p.read = 0
	}
}

// load is one worker's load as a replica knows it.
type load struct {
	backlog policy.Backlog
	pending float64 // uncached tokens sent without a first token, the plain sum
	flight  int64   // own requests that have not ended
	begun   int64   // of flight, those with a first token
	own     int64   // uncached and fetched prompt tokens of own requests in flight
	coming  int64   // prompt tokens of own requests without a first token that come from KV tiers
	heard   report
	speed   policy.Speed
	before  struct{ flight, begun, own int64 } // own share of heard
}

// report is a worker's report of its load.
type report struct {
	at              clock
	waiting         int64 // uncached prompt tokens of its queue and of the batch under way
	requests, begun int64
	used            int64 // tokens of running requests
	prefilled       int64
	prefillBusy     clock
}

// hear takes a report of worker i.
func (p *replica) hear(i int, r report) {
	l := &p.loads[i]
	l.heard = r
	l.before.flight, l.before.begun, l.before.own = l.flight, l.begun, l.own
	l.speed.Observe(float64(r.prefilled), r.prefillBusy.seconds())
	l.backlog.Reported(r.at.seconds(), float64(r.waiting), 0)
}

// requests is the number of requests at the worker: own, and others' as of the last report.
func (l *load) requests() int64 {
	return max(l.flight, l.heard.requests+l.flight-l.before.flight)
}

func (l *load) decoding() int64 { return max(l.begun, l.heard.begun+l.begun-l.before.begun) }

func (l *load) used() int64 { return max(l.heard.used+l.own-l.before.own, 0) + l.coming }

// note counts a step of t's life.
func (l *load) note(t *task, kind uint8, now clock) {
	switch kind {
	case noteSent:
		l.flight++
		l.own += int64(t.uncached)
		l.coming += int64(t.fetched)
		l.pending += float64(t.uncached)
		l.backlog.Sent(now.seconds(), float64(t.uncached))
	case noteBegun:
		l.pending -= float64(t.uncached)
		l.coming -= int64(t.fetched)
		l.own += int64(t.fetched)
		l.backlog.Begun(now.seconds(), float64(t.uncached))
		l.begun++
	case noteEnded:
		l.flight--
		l.begun--
		l.own -= int64(t.uncached + t.fetched)
	}
}

// choose asks the policy, and a baseline with a hash of the prompt's beginning or with the session.
func (p *replica) choose(t *task, now clock, req policy.Request, some candidates) policy.Choice {
	switch b := p.pick.(type) {
	case *stickySessions:
		if t.session != 0 {
			return b.pickForSession(t.session, now, some)
		}
	case dualMap:
		return b.pickByPrefix(p.prefix.hash(len(p.candidates), t.prefixes), req, some)
	}
	return p.pick.Pick(req, some)
}

// follow tells the sessions of a step of t's life.
func (p *replica) follow(t *task, kind uint8, now clock) {
	switch kind {
	case noteSent:
		p.sessions.Sent(now.seconds(), t.branch, int(t.worker), float64(t.input), float64(t.held))
	case noteEnded:
		p.sessions.Ended(now.seconds(), t.branch, float64(t.output))
		if took := (now - t.first).seconds(); p.answer == 0 || took <= 0 {
			p.answer = took
		} else {
			p.answer += answerShare * (took - p.answer)
		}
	}
}

// answerShare is the weight of the latest answer in the mean.
const answerShare = 1. / 32
