package request

import (
	"sync"
	"time"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/request/disagg"
	"github.com/warmpath/warmpath/dataplane/upstream"
)

// opinion is an error that a worker has answered with, while others are asked for theirs.
type opinion struct {
	rank *worker.Rank
	finding
	paid bool // a token of the budget
}

// opinions are those of one request.
type opinions struct {
	list   []opinion
	answer *upstream.Kept // the one that the client gets if nobody has a better one
	rank   *worker.Rank
}

func (o *opinions) reset() {
	clear(o.list)
	*o = opinions{list: o.list[:0]}
}

// budget bounds how many requests are sent again although a worker has answered them. One that
// another worker then answers well costs nothing.
type budget struct {
	mu     sync.Mutex
	tokens float64   // guarded by mu
	at     time.Time // of tokens; guarded by mu
}

const (
	// mostOpinions may be asked for at once, and one a second: clients that do nothing but mistakes
	// cost no more.
	mostOpinions = 24
	opinionEvery = time.Second
	// keptOpinions are for errors of workers that are under suspicion: else clients' mistakes could
	// use up all.
	keptOpinions = 16
)

// take takes a token, of those above kept.
func (b *budget) take(now time.Time, kept float64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.at.IsZero() {
		b.tokens = mostOpinions
	} else {
		b.tokens = min(b.tokens+max(now.Sub(b.at).Seconds(), 0)/opinionEvery.Seconds(), mostOpinions)
	}
	b.at = now
	if b.tokens < 1+kept {
		return false
	}
	b.tokens--
	return true
}

func (b *budget) give() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tokens = min(b.tokens+1, mostOpinions)
}

// tryAnother reports whether another worker is asked although this one has answered, and then ends
// the attempt. 429 and 503 go elsewhere while anybody fit is left. An error goes elsewhere while it
// is the only one of its kind: see worker.Refusals.
func (e *exchange) tryAnother(c call, resp *upstream.Response) bool {
	f, rank := e.found, e.answering()
	if f.kind == answered {
		return false
	}
	if !e.asksAgain(c, f, rank) {
		return false
	}
	kept, err := resp.Keep(disagg.MaxEvent)
	if kept == nil && err == nil { // too long to be kept: it is the client's
		return false
	}
	_ = resp.Close()
	e.hold(kept, f, rank)
	e.endAttempt()
	return true
}

// asksAgain decides and pays.
func (e *exchange) asksAgain(c call, f finding, rank *worker.Rank) bool {
	if f.kind != busy {
		// One that confirms the first one's error, and may not be believed, is no reason to stop.
		doubtful := rank.Worker.NeedsSecondOpinion(f.status) || len(e.opinions.list) > 0
		if !doubtful || !e.repeats(c) || e.agreed(f, rank) {
			return false
		}
	}
	switch {
	case !e.elsewhere(rank):
		return false
	case f.kind == busy:
		return true
	}
	kept := 0.0
	if rank.Worker.Credible(f.status) {
		kept = keptOpinions
	}
	return e.s.budget.take(time.Now(), kept)
}

// agreed reports whether a worker has said the same before, and one of the two is to be believed.
func (e *exchange) agreed(f finding, rank *worker.Rank) bool {
	for _, o := range e.opinions.list {
		if o.status == f.status && (o.rank.Worker.Credible(f.status) || rank.Worker.Credible(f.status)) {
			return true
		}
	}
	return false
}

// hold remembers an error, and the answer if it is the best yet: of several that ask the client to
// come back, the one that asks for the soonest.
func (e *exchange) hold(kept *upstream.Kept, f finding, rank *worker.Rank) {
	o := &e.opinions
	o.list = append(o.list, opinion{rank: rank, finding: f, paid: f.kind != busy})
	e.s.metrics.retries.Inc()
	if kept == nil {
		return
	}
	if o.answer == nil || f.kind != busy || kept.RetryAfter() >= 0 && kept.RetryAfter() < o.answer.RetryAfter() {
		o.answer, o.rank = kept, rank
	}
}

// settle holds errors against the workers that gave them, now that it is known how the last one
// that was asked has begun to answer.
func (e *exchange) settle(rank *worker.Rank) {
	f, now := e.found, time.Now()
	if f.kind == answered {
		for _, o := range e.opinions.list {
			o.blame(now)
			if o.paid {
				e.s.budget.give()
			}
		}
		return
	}
	alone := len(e.opinions.list) == 0
	last := opinion{rank: rank, finding: f}
	for _, o := range append(e.opinions.list, last) {
		w := o.rank.Worker
		switch {
		case o.kind == broke && (alone || w.Hopeless(o.status)):
			w.Fault(now)
		case o.kind == denied && !alone && o.status == f.status:
			w.Confirmed(o.status)
			w.Inconclusive()
		default:
			w.Inconclusive()
		}
	}
}

// blame holds an error against its worker: another one has answered the request well.
func (o *opinion) blame(now time.Time) {
	w := o.rank.Worker
	o.rank.Count.Errors.Add(1)
	if o.kind == busy {
		w.Busy(now)
		return
	}
	w.Contradicted(o.status)
	w.Fault(now)
}

// answerHeld makes the best of the workers' own errors the client's answer, if there is one.
func (e *exchange) answerHeld(c call) bool {
	o := &e.opinions
	if o.answer == nil {
		return false
	}
	for i := range o.list {
		o.list[i].rank.Worker.Inconclusive()
	}
	ctx := c.answer()
	o.answer.Answer(ctx)
	ctx.Response.Header.Set("X-Warmpath-Worker", o.rank.ID())
	e.s.metrics.passed(o.rank, o.answer.Status)
	e.recordRefusal(c)
	e.release()
	return true
}
