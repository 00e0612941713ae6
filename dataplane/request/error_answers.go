package request

import (
	"time"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/upstream"
)

// errorAnswer is an error that a worker has answered with, or a connection that it has lost, while
// other workers are asked.
type errorAnswer struct {
	rank *worker.Rank
	finding
	paid    bool // it has a price if the retry is in vain
	lost    bool // there was no answer
	counted bool // against the worker
}

// errorAnswers are those of one request. They count against their workers once it is known how the
// last worker answers.
type errorAnswers struct {
	x        *exchange
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
		if !e.lost && e.status == f.status && (e.rank.Worker.Credible(f.status) || rank.Worker.Credible(f.status)) {
			return false
		}
	}
	return true
}

// hold keeps an error, and its answer if that is the best yet: of several 429 and 503, the one with
// the soonest Retry-After.
func (a *errorAnswers) hold(kept *upstream.Kept, f finding, rank *worker.Rank) {
	a.list = append(a.list, errorAnswer{rank: rank, finding: f, paid: !f.cause.leadsTo(free)})
	a.x.h.metrics.retries.Inc()
	a.keep(kept, f, rank)
}

// keep keeps an error's answer if that is the best yet.
func (a *errorAnswers) keep(kept *upstream.Kept, f finding, rank *worker.Rank) {
	if kept == nil {
		return
	}
	if a.best == nil || f.cause != causeBusy || kept.RetryAfter() >= 0 && kept.RetryAfter() < a.best.RetryAfter() {
		a.best, a.bestRank = kept, rank
	}
}

// failed takes in a failure without an answer.
func (a *errorAnswers) failed(rank *worker.Rank, c cause) {
	now := time.Now()
	at := failures[c].fault
	counted := at == faultWorker || at == faultLoss && a.x.h.sources.countsAgainst(rank.Worker, a.x, now)
	if counted {
		rank.Worker.Fault(now)
	}
	if at != faultWorker {
		a.list = append(a.list, errorAnswer{rank: rank, finding: finding{cause: c}, lost: true, counted: counted})
	}
}

// settle counts the errors against the workers that gave them. rank is the last worker and f the
// beginning of its answer.
func (a *errorAnswers) settle(rank *worker.Rank, f finding) {
	if f.cause != causeNone {
		a.list = append(a.list, errorAnswer{rank: rank, finding: f})
		a.undecided()
		return
	}
	now := time.Now()
	for i := range a.list {
		e, d := &a.list[i], &a.x.choice.decision
		if e.rank != d.Rank && e.rank != d.Decode { // else its partner was at fault
			e.blame(now)
		}
	}
}

// blame counts an error against its worker: another one has answered the request well.
func (e *errorAnswer) blame(now time.Time) {
	w := e.rank.Worker
	if !e.lost {
		e.rank.Count.Errors.Add(1)
	}
	switch {
	case failures[e.cause].fault == faultBusy:
		w.Busy(now)
		return
	case !e.lost:
		w.Contradicted(e.status)
	}
	if !e.counted {
		w.Fault(now)
	}
}

// undecided takes in that no worker has answered the request well. Where several have failed it,
// that is the request's own fault.
func (a *errorAnswers) undecided() {
	if len(a.list) == 0 {
		return
	}
	now, last := time.Now(), &a.list[len(a.list)-1]
	paid := 0
	for i := range a.list {
		e := &a.list[i]
		w, at := e.rank.Worker, failures[e.cause].fault
		if e.paid {
			paid++
		}
		switch {
		case e.counted || at == faultBusy:
		case at == faultClient && len(a.list) > 1 && e.status == last.status:
			w.Confirmed(e.status)
		case at != faultClient && len(a.list) == 1 && !a.x.client.Gone():
			a.x.unexplained(w, now)
			continue
		}
		w.Inconclusive()
	}
	if paid > 0 {
		a.x.h.sources.retriedInVain(a.x, paid, now)
	}
}

// unexplained takes in a failure of a worker that no other worker has an opinion about.
func (x *exchange) unexplained(w *worker.Worker, now time.Time) {
	if x.h.sources.countsAgainst(w, x, now) {
		w.Fault(now)
	} else {
		w.Unexplained(now)
	}
}

func (a *errorAnswers) reset() {
	clear(a.list)
	a.list, a.best, a.bestRank = a.list[:0], nil, nil
}
