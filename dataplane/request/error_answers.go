package request

import (
	"time"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/upstream"
)

// errorAnswer is an error that a worker has answered with, while other workers are asked.
type errorAnswer struct {
	rank *worker.Rank
	finding
	paid bool // with a token of the retry budget
}

// errorAnswers are those of one request. They count against their workers once it is known how the
// last worker answers.
type errorAnswers struct {
	h        *Handler
	list     []errorAnswer
	best     *upstream.Kept // the client's answer where no worker has a better one
	bestRank *worker.Rank
}

// doubtful reports whether an error is worth a retry: few requests get it from the worker, and no
// earlier worker has confirmed it.
func (a *errorAnswers) doubtful(f finding, rank *worker.Rank) bool {
	// A second error that may itself be wrong is no reason to stop.
	if !rank.Worker.NeedsSecondOpinion(f.status) && len(a.list) == 0 {
		return false
	}
	for _, e := range a.list {
		if e.status == f.status && (e.rank.Worker.Credible(f.status) || rank.Worker.Credible(f.status)) {
			return false
		}
	}
	return true
}

// hold keeps an error, and its answer if that is the best yet: of several 429 and 503, the one with
// the soonest Retry-After.
func (a *errorAnswers) hold(kept *upstream.Kept, f finding, rank *worker.Rank) {
	a.list = append(a.list, errorAnswer{rank: rank, finding: f, paid: f.kind != answerBusy})
	a.h.metrics.retries.Inc()
	a.keep(kept, f, rank)
}

// keep keeps an error's answer if that is the best yet.
func (a *errorAnswers) keep(kept *upstream.Kept, f finding, rank *worker.Rank) {
	if kept == nil {
		return
	}
	if a.best == nil || f.kind != answerBusy || kept.RetryAfter() >= 0 && kept.RetryAfter() < a.best.RetryAfter() {
		a.best, a.bestRank = kept, rank
	}
}

// settle counts the errors against the workers that gave them. rank is the last worker and f the
// beginning of its answer.
func (a *errorAnswers) settle(rank *worker.Rank, f finding) {
	now := time.Now()
	if f.kind == answerGood {
		for _, e := range a.list {
			e.blame(now)
			if e.paid {
				a.h.retries.giveBack()
			}
		}
		return
	}
	alone := len(a.list) == 0
	for _, e := range append(a.list, errorAnswer{rank: rank, finding: f}) {
		w := e.rank.Worker
		switch {
		case e.kind == answerBroken && (alone || w.Hopeless(e.status)):
			w.Fault(now)
		case e.kind == answerRefused && !alone && e.status == f.status:
			w.Confirmed(e.status)
			w.Inconclusive()
		default:
			w.Inconclusive()
		}
	}
}

// blame counts an error against its worker: another one has answered the request well.
func (e *errorAnswer) blame(now time.Time) {
	w := e.rank.Worker
	e.rank.Count.Errors.Add(1)
	if e.kind == answerBusy {
		w.Busy(now)
		return
	}
	w.Contradicted(e.status)
	w.Fault(now)
}

// undecided counts no error against its worker: none answered the request well.
func (a *errorAnswers) undecided() {
	for i := range a.list {
		a.list[i].rank.Worker.Inconclusive()
	}
}

func (a *errorAnswers) reset() {
	clear(a.list)
	a.list, a.best, a.bestRank = a.list[:0], nil, nil
}
