package request

import (
	"errors"
	"fmt"
	"hash/maphash"
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

// isolation keeps requests apart that may end engines.
type isolation struct {
	quarantine *quarantine.Quarantine
	duplicates quarantine.Duplicates
	seed       maphash.Seed // of digests and likenesses
	registry   *worker.Registry
}

func newIsolation(cfg *Config, registry *worker.Registry) *isolation {
	return &isolation{
		quarantine: quarantine.New(quarantine.Config{For: cfg.Quarantine, Log: cfg.Log}),
		seed:       maphash.MakeSeed(), registry: registry,
	}
}

// guard is the isolation of one request.
type guard struct {
	x      *exchange
	key    uint64 // digest of the body
	keyed  bool
	resent time.Time // of the last attempt; zero: the first, see exchange.started
	trial  *quarantine.Trial
	deaths int  // of engines with the request in flight
	unfit  bool // the trial's worker was not ready: it may have died before

	likeness uint64 // see quarantine.Duplicates
	joined   string // the worker that has the request, while no answer has begun
}

const (
	// settledAfter is how long an engine that still runs has begun to compute a request after: a
	// request that ends an engine does so in its first batch. A stream without a first event was
	// not computed, however long ago it was sent.
	settledAfter = 2 * time.Second
	// maxEngineDeaths bounds the engines that may die with a request in flight that is not the
	// cause: two for each of four culprits.
	maxEngineDeaths = 8
	// trialTick is how soon the end of a trial by time is seen.
	trialTick = 50 * time.Millisecond
	// forever stands for a timeout that is switched off.
	forever = 100 * 365 * 24 * time.Hour
)

// errDuplicates holds a request back: two workers have equal ones, and neither can take another.
var errDuplicates = errors.New("request: two workers have equal requests")

// identify gives the request its digest; false: it has no body that could end an engine.
func (g *guard) identify() bool {
	if !g.keyed && g.x.req.HasBody() {
		g.key, g.keyed = g.x.req.Digest(g.x.h.isolation.seed), true
	}
	return g.keyed
}

// choose picks the rank or the pair for the next attempt. It refuses culprits, lets a suspect wait
// for its trial, and keeps other requests away from it.
func (g *guard) choose() (routing.Decision, error) {
	var deadline time.Time
	for {
		d, err := g.chooseOnce()
		if !errors.Is(err, errDuplicates) {
			return d, err
		}
		// The outcome of the equal requests is known soon: they wait at workers that this one
		// cannot have.
		if deadline.IsZero() {
			deadline = g.deadline(time.Now())
		}
		if err := g.mayWait(deadline); err != nil {
			return routing.Decision{}, fmt.Errorf("cannot send beside equal requests: %w", err)
		}
		<-time.After(trialTick / 10)
	}
}

// deadline is the time until which a request that came now may wait for its answer to begin.
func (g *guard) deadline(now time.Time) time.Time {
	if limit := g.x.h.live().FirstByteTimeout; limit > 0 {
		return now.Add(limit)
	}
	return now.Add(forever)
}

// mayWait returns nil while the client is there and the deadline has not passed.
func (g *guard) mayWait(deadline time.Time) error {
	switch {
	case g.x.client.Gone():
		return upstream.ErrCanceled
	case time.Now().After(deadline):
		return upstream.ErrTimeout
	}
	return nil
}

// chooseOnce is choose, but returns errDuplicates instead of waiting for equal requests.
func (g *guard) chooseOnce() (routing.Decision, error) {
	q, c := g.x.h.isolation.quarantine, &g.x.choice
	if !q.Active() || !g.identify() {
		d, err := c.choose()
		if err == nil && !g.join(&d) {
			return g.chooseDuplicate()
		}
		return d, err
	}
	now := time.Now()
	status := q.Lookup(g.key, now)
	switch {
	case status.Refused > 0:
		return routing.Decision{}, errCulprit(status)
	case status.Suspect:
		return g.awaitTrial(g.deadline(now))
	}
	d, err := g.chooseBeside(now)
	if errors.Is(err, routing.ErrNoWorker) {
		d, err = c.choose() // beside a suspect rather than nowhere
	}
	if err == nil && !g.join(&d) {
		return g.chooseDuplicate()
	}
	return d, err
}

// chooseDuplicate chooses among the workers that have an equal request.
func (g *guard) chooseDuplicate() (routing.Decision, error) {
	d, err := g.x.choice.chooseWithout(func(w *worker.Worker) bool {
		return !g.x.h.isolation.duplicates.InFlightAt(g.likeness, w.URL)
	})
	if err == nil && g.join(&d) {
		return d, nil
	}
	return routing.Decision{}, errDuplicates
}

// join notes the worker of the request. It refuses while two other workers have equal requests,
// none of which was answered, and neither worker has lived with its request for long.
func (g *guard) join(d *routing.Decision) bool {
	iso, req := g.x.h.isolation, &g.x.req
	if !req.HasBody() {
		return true
	}
	if g.likeness = req.Likeness(iso.seed); g.likeness == 0 {
		return true
	}
	var at time.Time
	if !req.Stream {
		at = time.Now()
	}
	url := d.Rank.Worker.URL
	if !iso.duplicates.Begin(g.likeness, url, at) {
		if !iso.duplicates.Survived(g.likeness, iso.outlived) {
			return false
		}
		iso.duplicates.Begin(g.likeness, url, at)
	}
	g.joined = url
	return true
}

// outlived reports whether a worker was alive so long after a request that the request would have
// ended it by then.
func (s *isolation) outlived(url string, since time.Time) bool {
	workers := s.registry.Snapshot().Workers
	i := slices.IndexFunc(workers, func(w *worker.Worker) bool { return w.URL == url })
	return i >= 0 && workers[i].Alive().Sub(since) >= settledAfter
}

// leave is the end of join: the answer has begun, or there is none.
func (g *guard) leave(answered bool) {
	if g.joined != "" {
		g.x.h.isolation.duplicates.End(g.likeness, g.joined, answered)
		g.joined = ""
	}
}

// awaitTrial waits until the suspect may be tried on a worker without another suspect.
func (g *guard) awaitTrial(deadline time.Time) (routing.Decision, error) {
	iso := g.x.h.isolation
	q := iso.quarantine
	tick := time.NewTicker(trialTick)
	defer tick.Stop()
	anywhereUntil := time.Now().Add(settledAfter)
	g.likeness = g.x.req.Likeness(iso.seed)
	for {
		now := time.Now()
		changed := q.Changed()
		if status := q.Lookup(g.key, now); status.Refused > 0 {
			return routing.Decision{}, errCulprit(status)
		}
		d, err := g.chooseBeside(now)
		switch {
		case err == nil && g.duplicateInFlight(now.Before(anywhereUntil)):
			// An equal request was sent before the suspicion: its outcome counts too.
		case err == nil && (d.Rank.Worker.State() == worker.Ready || !q.Trying()):
			if trial := q.BeginTrial(g.key, d.Rank.Worker.URL, now); trial != nil {
				g.trial, g.unfit = trial, d.Rank.Worker.State() != worker.Ready
				return d, nil
			}
		case err != nil && (!errors.Is(err, routing.ErrNoWorker) || !q.Trying()):
			return d, err
		}
		if err := g.mayWait(deadline); err != nil {
			return d, fmt.Errorf("cannot try suspect alone: %w", err)
		}
		select {
		case <-changed:
		case <-tick.C:
		}
	}
}

// duplicateInFlight reports whether an equal request waits for its answer: anywhere, or at a worker
// that is not ready, which may be the request's work.
func (g *guard) duplicateInFlight(anywhere bool) bool {
	iso := g.x.h.isolation
	if !iso.duplicates.InFlight(g.likeness) {
		return false
	}
	return anywhere || slices.ContainsFunc(iso.registry.Snapshot().Workers, func(w *worker.Worker) bool {
		return w.State() != worker.Ready && iso.duplicates.InFlightAt(g.likeness, w.URL)
	})
}

// chooseBeside chooses among the workers without a trial.
func (g *guard) chooseBeside(now time.Time) (routing.Decision, error) {
	c := &g.x.choice
	busy := g.x.h.isolation.quarantine.TrialWorkers(nil, now)
	if len(busy) == 0 || len(c.suspects) > 0 {
		return c.choose()
	}
	return c.chooseWithout(func(w *worker.Worker) bool { return slices.Contains(busy, w.URL) })
}

// answerBegan ends the trial: the engine has survived the request.
func (g *guard) answerBegan() {
	g.trial.AnswerBegan()
	g.leave(true)
}

// endTrial ends the trial after an answer that leads to another worker.
func (g *guard) endTrial() {
	g.trial.End()
	g.trial = nil
	g.leave(false)
}

// lost reports a failed attempt to the quarantine. otherCause says that the failure is a death with
// another cause, which need not count among the attempts; refusal is the error of a culprit.
func (g *guard) lost(err error) (otherCause bool, refusal error) {
	trial, unfit := g.trial, g.unfit
	g.trial, g.unfit = nil, false
	defer trial.End()
	defer g.leave(false) // after the loss is known: equal requests look for it then
	if unfit || !g.identify() {
		return false, nil
	}
	q, d := g.x.h.isolation.quarantine, &g.x.choice.decision
	failed, other := d.Rank.Worker, (*worker.Worker)(nil)
	if d.Decode != nil {
		other = d.Decode.Worker
		if g.x.attempt.failedLeg == legDecode {
			failed, other = other, failed
		}
	}
	if !died(err) {
		// A leg may report the failed transfer before its partner's connection ends.
		if other == nil || g.x.client.Gone() || !isGone(other, false) {
			return false, nil
		}
		failed, other = other, nil
	}
	sent := g.resent
	if sent.IsZero() {
		sent = g.x.started
	}
	now := time.Now()
	likely := g.x.req.Stream || failed.Alive().Sub(sent) < settledAfter
	gone := isGone(failed, errors.Is(err, errHung))
	g.resent = time.Now()
	loss := quarantine.Loss{
		Key: g.key, Name: string(g.x.call.name()), Worker: failed.URL, Died: gone, Likely: likely, At: now, Alive: failed.Alive(), Trial: trial,
	}
	if trial != nil && d.Decode != nil {
		loss.Worker = d.Rank.Worker.URL // the trial is a pair's
	}
	spared := q.Lost(loss)
	if spared && gone && other != nil && isGone(other, false) {
		loss.Worker, loss.Alive, loss.Trial = other.URL, other.Alive(), nil
		spared = q.Lost(loss)
	}
	if !spared {
		return false, errCulprit(q.Lookup(g.key, now))
	}
	if gone {
		g.deaths++
	}
	return gone && g.deaths < maxEngineDeaths, nil
}

// answerCut reports an answer that was cut. It cannot be had again, but a client may send the
// request again.
func (g *guard) answerCut(err error) {
	if !died(err) || g.x.choice.decision.Rank == nil || !g.identify() {
		return
	}
	failed := g.x.choice.answering().Worker
	failed.Suspect()
	if isGone(failed, false) {
		g.x.h.isolation.quarantine.Lost(quarantine.Loss{
			Key: g.key, Name: string(g.x.call.name()), Worker: failed.URL, Died: true,
			Likely: failed.Alive().Sub(g.x.attempt.sent) < settledAfter,
			At:     time.Now(), Alive: failed.Alive(),
		})
	}
}

// clientLeft reports that the client has left before the answer began.
func (g *guard) clientLeft() {
	d := &g.x.choice.decision
	if d.Rank == nil || !g.identify() {
		return
	}
	asked := []*worker.Worker{d.Rank.Worker}
	if d.Decode != nil {
		asked = append(asked, d.Decode.Worker)
	}
	for _, w := range asked {
		q := g.x.h.isolation.quarantine
		q.Abandoned(g.key, string(g.x.call.name()), w.URL, time.Now())
		if s := w.State(); s == worker.Dead || s == worker.Probing { // the death was known first
			q.WorkerDied(w.URL, time.Now())
		}
	}
}

// clear ends the suspicion: the request was answered.
func (g *guard) clear() {
	q := g.x.h.isolation.quarantine
	if q.Active() && g.x.answer.status < fasthttp.StatusInternalServerError && g.identify() {
		q.Clear(g.key)
	}
}

func (g *guard) reset() {
	g.trial.End()
	g.leave(false)
	*g = guard{x: g.x}
}

// errCulprit is the error of a request that ends engines.
func errCulprit(s quarantine.Status) error {
	return &openai.Error{
		Status: fasthttp.StatusBadRequest, Type: "invalid_request_error",
		Code: "request_ends_engines",
		Message: "This request was in flight when " + strconv.Itoa(max(s.Deaths, 2)) +
			" engines died. It is refused for " + max(s.Refused, time.Second).Round(time.Second).String() + ".",
	}
}
