package request

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/request/quarantine"
	"github.com/warmpath/warmpath/dataplane/routing"
	"github.com/warmpath/warmpath/dataplane/upstream"
)

// trial is what the quarantine knows of an exchange's request.
type trial struct {
	key    uint64
	named  bool
	sent   time.Time // again; zero: the first time, see exchange.started
	turn   *quarantine.Turn
	deaths int  // of engines that had it in flight
	unfit  bool // it was sent to a worker that was not ready: what ends it there may have happened before

	like   uint64 // see quarantine.Twins
	joined string // the worker that it was sent to, while no answer has begun
}

const (
	// settled is after how long an engine that still runs has begun to compute a request: what ends it, ends it
	// with the first batch. A stream without a first event was not computed, however long ago it was sent.
	settled = 2 * time.Second
	// maxDeaths bounds how many engines may die with a request in flight that is not their cause: two for each
	// of four others.
	maxDeaths = 8
	// turnTick is how soon a turn that ended by time is seen.
	turnTick = 50 * time.Millisecond
	// forever stands for a limit that is switched off.
	forever = 100 * 365 * 24 * time.Hour
	// probedWithin is how long a probe may take to say whether a worker lives that accepts connections.
	probedWithin = time.Second
)

// died reports whether an attempt failed as it does when an engine dies. To hang is one way: the HTTP process of SGLang 0.5.23 answers nothing any
// more when its scheduler has died, and ends 5 s later, or 65 s where it waits for a dump of the GPU.
func died(err error) bool {
	return errors.Is(err, upstream.ErrNoResponse) || errors.Is(err, upstream.ErrTruncated) || errors.Is(err, errHung)
}

// digested gives the request its name in the quarantine; false: it has no body that could end an engine.
func (e *exchange) digested() bool {
	if !e.trial.named && e.req.HasBody() {
		e.trial.key, e.trial.named = e.req.Digest(e.s.wardSeed), true
	}
	return e.trial.named
}

// chooseApart is choose for a router some of whose requests may end engines: it refuses those that do, lets a
// suspect wait for its turn, and keeps others away from it.
func (e *exchange) chooseApart(c call) (routing.Decision, error) {
	var deadline time.Time
	for {
		d, err := e.chooseOnce(c)
		if !errors.Is(err, errTwins) {
			return d, err
		}
		// What becomes of the equal requests is known soon: they wait at workers that this one cannot have.
		if deadline.IsZero() {
			deadline = e.answerBy(time.Now())
		}
		if err := e.waits(deadline); err != nil {
			return routing.Decision{}, fmt.Errorf("cannot send beside the same request: %w", err)
		}
		<-time.After(turnTick / 10)
	}
}

// errTwins is for a request that waits: two workers have equal ones, and neither can take another.
var errTwins = errors.New("server: two workers have the same request")

// answerBy is until when a request that came now may wait for its answer to begin.
func (e *exchange) answerBy(now time.Time) time.Time {
	if limit := e.s.live().FirstByteTimeout; limit > 0 {
		return now.Add(limit)
	}
	return now.Add(forever)
}

// waits returns nil while a request may wait on: its client is there, and its time is not over.
func (e *exchange) waits(deadline time.Time) error {
	switch {
	case e.client.Gone():
		return upstream.ErrCanceled
	case time.Now().After(deadline):
		return upstream.ErrTimeout
	}
	return nil
}

// chooseOnce is chooseApart that returns errTwins instead of waiting for equal requests.
func (e *exchange) chooseOnce(c call) (routing.Decision, error) {
	ward := e.s.ward
	if !ward.Active() || !e.digested() {
		d, err := e.choose(c)
		if err == nil && !e.join(&d) {
			return e.chooseWithTwins(c)
		}
		return d, err
	}
	now := time.Now()
	status := ward.Look(e.trial.key, now)
	switch {
	case status.Refused > 0:
		return routing.Decision{}, endsEngines(status)
	case status.Suspect:
		return e.awaitTurn(c, e.answerBy(now))
	}
	d, err := e.chooseBeside(c, now)
	if errors.Is(err, routing.ErrNoWorker) {
		d, err = e.choose(c) // better beside a suspect than not at all
	}
	if err == nil && !e.join(&d) {
		return e.chooseWithTwins(c)
	}
	return d, err
}

// chooseWithTwins chooses one of the workers that have the same request already.
func (e *exchange) chooseWithTwins(c call) (routing.Decision, error) {
	d, err := e.chooseWithout(c, func(w *worker.Worker) bool { return !e.s.twins.Holds(e.trial.like, w.URL) })
	if err == nil && e.join(&d) {
		return d, nil
	}
	return routing.Decision{}, errTwins
}

// join notes where the request goes, unless two other workers have the same one, nobody has answered it, and no
// worker has lived with it for long.
func (e *exchange) join(d *routing.Decision) bool {
	if !e.req.HasBody() {
		return true
	}
	if e.trial.like = e.req.Likeness(e.s.wardSeed); e.trial.like == 0 {
		return true
	}
	var at time.Time
	if !e.req.Stream {
		at = time.Now()
	}
	url := d.Rank.Worker.URL
	if !e.s.twins.Join(e.trial.like, url, at) {
		if !e.s.twins.Survived(e.trial.like, e.s.outlived) {
			return false
		}
		e.s.twins.Join(e.trial.like, url, at)
	}
	e.trial.joined = url
	return true
}

// outlived reports whether a worker was alive so long after a request that this one would have ended it.
func (s *Server) outlived(url string, since time.Time) bool {
	workers := s.Registry.Snapshot().Workers
	i := slices.IndexFunc(workers, func(w *worker.Worker) bool { return w.URL == url })
	return i >= 0 && workers[i].Alive().Sub(since) >= settled
}

// leave ends what join began: the answer has begun, or there is none.
func (e *exchange) leave(answered bool) {
	if e.trial.joined != "" {
		e.s.twins.Leave(e.trial.like, e.trial.joined, answered)
		e.trial.joined = ""
	}
}

// awaitTurn waits until the suspect may be tried on a worker without another suspect.
func (e *exchange) awaitTurn(c call, deadline time.Time) (routing.Decision, error) {
	ward := e.s.ward
	tick := time.NewTicker(turnTick)
	defer tick.Stop()
	alone := time.Now().Add(settled)
	e.trial.like = e.req.Likeness(e.s.wardSeed)
	for {
		now := time.Now()
		changed := ward.Wait()
		status := ward.Look(e.trial.key, now)
		if status.Refused > 0 {
			return routing.Decision{}, endsEngines(status)
		}
		d, err := e.chooseBeside(c, now)
		switch {
		case err == nil && e.twinFlies(now.Before(alone)):
			// The same request is at another worker, sent before anybody knew: what becomes of it counts too.
		case err == nil && (d.Rank.Worker.State() == worker.Ready || !ward.Trying()):
			if turn := ward.Take(e.trial.key, d.Rank.Worker.URL, now); turn != nil {
				e.trial.turn, e.trial.unfit = turn, d.Rank.Worker.State() != worker.Ready
				return d, nil
			}
		case err != nil && (!errors.Is(err, routing.ErrNoWorker) || !ward.Trying()):
			return d, err
		}
		if err := e.waits(deadline); err != nil {
			return d, fmt.Errorf("cannot try suspect alone: %w", err)
		}
		select {
		case <-changed:
		case <-tick.C:
		}
	}
}

// twinFlies reports whether a request that looks the same waits for its answer: at a worker that is not fit, where it may be why, or
// anywhere for a while.
func (e *exchange) twinFlies(anywhere bool) bool {
	if !e.s.twins.Flying(e.trial.like) {
		return false
	}
	return anywhere || slices.ContainsFunc(e.s.Registry.Snapshot().Workers, func(w *worker.Worker) bool {
		return w.State() != worker.Ready && e.s.twins.Holds(e.trial.like, w.URL)
	})
}

// chooseBeside is choose without the workers on which a suspect is on trial.
func (e *exchange) chooseBeside(c call, now time.Time) (routing.Decision, error) {
	busy := e.s.ward.Busy(nil, now)
	if len(busy) == 0 || len(e.doubted) > 0 {
		return e.choose(c)
	}
	return e.chooseWithout(c, func(w *worker.Worker) bool { return slices.Contains(busy, w.URL) })
}

// chooseWithout is choose without the workers that skip names.
func (e *exchange) chooseWithout(c call, skip func(*worker.Worker) bool) (routing.Decision, error) {
	own := len(e.tried)
	for _, rank := range e.s.Registry.Snapshot().Ranks {
		if skip(rank.Worker) {
			e.tried = append(e.tried, rank)
		}
	}
	d, err := e.choose(c)
	if own <= len(e.tried) {
		clear(e.tried[own:])
		e.tried = e.tried[:own]
	}
	return d, err
}

// endTrial ends the attempt for the quarantine: the worker has answered, and another one is asked.
func (e *exchange) endTrial() {
	e.trial.turn.End()
	e.trial.turn = nil
	e.leave(false)
}

// lost tells the quarantine of an attempt that failed. again says that the failure is a death that need not
// count among the tries; refusal is what the client is told where the request is at fault.
func (e *exchange) lost(err error) (again bool, refusal error) {
	turn, unfit := e.trial.turn, e.trial.unfit
	e.trial.turn, e.trial.unfit = nil, false
	defer turn.End()
	defer e.leave(false) // when the loss is known: equal requests look for it then
	if unfit || !died(err) || !e.digested() {
		return false, nil
	}
	failed := e.decision.Rank.Worker
	if e.failed == 1 && e.decision.Decode != nil {
		failed = e.decision.Decode.Worker
	}
	sent := e.trial.sent
	if sent.IsZero() {
		sent = e.started
	}
	now := time.Now()
	likely := e.req.Stream || failed.Alive().Sub(sent) < settled
	gone := isGone(failed, errors.Is(err, errHung))
	e.trial.sent = time.Now()
	loss := quarantine.Loss{Key: e.trial.key, Worker: failed.URL, Died: gone, Likely: likely, At: now, Alive: failed.Alive(), Turn: turn}
	if turn != nil && e.decision.Decode != nil {
		loss.Worker = e.decision.Rank.Worker.URL // the turn is a pair's
	}
	spared := e.s.ward.Lost(loss)
	if other := e.otherLeg(failed); spared && gone && other != nil && isGone(other, false) {
		loss.Worker, loss.Alive, loss.Turn = other.URL, other.Alive(), nil
		spared = e.s.ward.Lost(loss)
	}
	if !spared {
		return false, endsEngines(e.s.ward.Look(e.trial.key, now))
	}
	if gone {
		e.trial.deaths++
	}
	return gone && e.trial.deaths < maxDeaths, nil
}

// otherLeg returns a pair's other worker, nil where there is none.
func (e *exchange) otherLeg(failed *worker.Worker) *worker.Worker {
	switch d := &e.decision; {
	case d.Decode == nil:
		return nil
	case d.Decode.Worker == failed:
		return d.Rank.Worker
	default:
		return d.Decode.Worker
	}
}

// lostBegun tells the quarantine of an answer that was cut: it cannot be had again, but a client may ask again.
func (e *exchange) lostBegun(err error) {
	if !died(err) || e.decision.Rank == nil || !e.digested() {
		return
	}
	failed := e.answering().Worker
	failed.Suspect()
	if isGone(failed, false) {
		e.s.ward.Lost(quarantine.Loss{
			Key: e.trial.key, Worker: failed.URL, Died: true, Likely: failed.Alive().Sub(e.sent) < settled, At: time.Now(), Alive: failed.Alive(),
		})
	}
}

// clientLeft tells the quarantine of a request whose client has left before its answer began.
func (e *exchange) clientLeft() {
	if e.decision.Rank == nil || !e.digested() {
		return
	}
	asked := []*worker.Worker{e.decision.Rank.Worker}
	if e.decision.Decode != nil {
		asked = append(asked, e.decision.Decode.Worker)
	}
	for _, w := range asked {
		e.s.ward.Left(e.trial.key, w.URL, time.Now())
		if s := w.State(); s == worker.Dead || s == worker.Probing { // the death was known first
			e.s.WorkerDied(w.URL)
		}
	}
}

// WorkerDied tells that the process at a worker's URL is gone.
func (s *Server) WorkerDied(url string) { s.ward.Died(url, time.Now()) }

// cleared ends the suspicion: the request was answered.
func (e *exchange) cleared() {
	if ward := e.s.ward; ward.Active() && e.status < fasthttp.StatusInternalServerError && e.digested() {
		ward.Clear(e.trial.key)
	}
}

// isGone reports whether a worker that has lost a connection is gone: nothing listens there, or its probe finds it
// unfit. It waits for no longer than a probe takes; one that answers none by then is gone if a request found it hanging.
func isGone(w *worker.Worker, hung bool) bool {
	conn, err := net.DialTimeout("tcp", w.Addr, probedWithin)
	if err != nil {
		return true
	}
	_ = conn.Close()
	for end := time.Now().Add(probedWithin); time.Now().Before(end); <-time.After(5 * time.Millisecond) {
		switch w.State() {
		case worker.Dead, worker.Probing:
			return true
		case worker.Ready, worker.Draining:
			return false
		}
	}
	return hung
}

// endsEngines is what a client is told whose request ends engines.
func endsEngines(s quarantine.Status) error {
	return &openai.Error{
		Status: fasthttp.StatusBadRequest, Type: "invalid_request_error", Code: "request_ends_engines",
		Message: "This request was in flight when " + strconv.Itoa(max(s.Deaths, 2)) + " engines died. It is refused for " +
			max(s.Refused, time.Second).Round(time.Second).String() + ".",
	}
}
