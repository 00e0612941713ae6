package ingest

import (
	"context"
	"errors"
	"time"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

// conclude takes in the end of a replay, and returns the pause before it is asked for again; 0:
// it is not.
func (r *recovery) conclude(a *ask, err error) (pause time.Duration) {
	if a.kind == askProof && err == nil {
		switch {
		case !a.met: // it has published fewer messages than were received
			err = errOtherProcess
		case r.held.any() && r.held.messages[0].Seq > r.f.next:
			err = errHole
		}
	}
	if errors.Is(err, errHole) && a.attempt < holeRetries {
		pause = holePause << (2 * a.attempt)
		a.attempt++
		return pause
	}
	r.drop()
	switch {
	case err != nil:
		r.fail(a, err)
	case a.kind == askProof:
		r.proved(a)
	case a.kind == askSurvey:
		r.surveyed(a)
	default:
		r.learnt(a)
	}
	return 0
}

// giveUp ends the replay under way as a failed one.
func (r *recovery) giveUp(err error) {
	if a := r.asking; a != nil {
		r.drop()
		r.fail(a, err)
	}
}

// proved continues with a rank that is the known one.
func (r *recovery) proved(a *ask) {
	f := r.f
	if f.unverified {
		f.unverified, f.wait = false, f.cfg.ResyncEvery
		f.log.Info("KV events go on where the snapshot ended", "from", a.before, "next", f.next)
	} else if a.brought && !r.held.any() {
		f.stats.Gaps.Add(1)
	}
	f.failed = 0
	f.setState(Live)
	f.confirmed()
	if f.silence.asked && f.next == a.before && !r.held.any() && f.silence.deny(f.rank.Count.Stored.Load()) {
		f.silent()
	}
	f.silence.asked = false
	r.release()
}

// learnt continues after the replay of the rank's history.
func (r *recovery) learnt(a *ask) {
	f := r.f
	if a.fresh { // nothing is published yet: sequence number 0 is to come
		f.lose()
		f.restart(true)
		f.joined = true
	}
	// Orphans in a whole history, and holes, will be there in the next replay too.
	if f.content.orphans && f.complete || f.truncated {
		f.backOff()
	} else {
		f.wait = f.cfg.ResyncEvery
	}
	if f.complete {
		f.rank.WholeHistory()
	}
	f.content.orphans, f.resynced, f.quiet, f.failed = false, time.Now(), time.Now(), 0
	f.setState(Live)
	f.confirmed()
	r.release()
}

// surveyed learns the rank again where its replay has more than the content.
func (r *recovery) surveyed(a *ask) {
	f := r.f
	f.resynced, f.failed = time.Now(), 0
	switch {
	case a.fresh && f.joined && f.next > 0: // it has published fewer messages than were received
		f.processChanged()
		f.heard = false
		f.resync()
	case a.holed && f.stats.State() != Degraded && a.first >= f.first:
		f.backOff()
	default: // the rank's buffer has the hole no more, or less of it
		f.resync()
	}
}

// fail continues without the replay.
func (r *recovery) fail(a *ask, err error) {
	f := r.f
	f.resynced = time.Now()
	level := severity(err)
	switch {
	case errors.Is(err, errOtherProcess):
		f.log.Info("the replay of KV events is another process's; starting over", "from", a.from)
		f.rank.OtherProcess(time.Now())
		f.processChanged()
		f.heard = false // its sequence numbers start over
		f.resync()
	case errors.Is(err, errGone), errors.Is(err, errHole):
		f.log.Log(context.Background(), level, "cannot find dropped KV events; starting over", "from", f.next, "error", err)
		if r.held.any() {
			f.stats.Lost.Add(r.held.missingFrom(f.next))
		} else if !f.unverified {
			f.stats.Gaps.Add(1)
		}
		f.resync()
	case a.kind == askHistory:
		f.log.Log(context.Background(), level, "cannot replay KV events; going on from now", "endpoint", r.endpoint, "error", err)
		if a.answered && errors.Is(err, context.DeadlineExceeded) {
			f.backOff() // the engine is too slow, and each try drops live content
		} else {
			f.unanswered()
		}
		if a.answered {
			f.degrade()
			r.release()
			return
		}
		r.held.drop() // applied as they came
		f.setState(Degraded)
	case a.kind == askSurvey:
		f.unanswered()
	default:
		f.unanswered()
		r.unproved(err)
	}
}

// unproved continues without a proof. Content that some sign contradicts is dropped; content
// that was only checked stays, and is not credited until the rank confirms it.
func (r *recovery) unproved(err error) {
	f := r.f
	switch {
	case f.silence.asked:
		f.silence.asked = false
		f.silent()
	case r.held.any(), errors.Is(err, errOverflow), f.rank.Doubt() == worker.DoubtProcess:
		if r.held.any() {
			missing := r.held.missingFrom(f.next)
			f.stats.Lost.Add(missing)
			f.log.Log(context.Background(), severity(err), "cannot fill a gap in KV events", "missing", missing, "from", f.next, "error", err)
		}
		f.degrade()
	case f.unverified:
		if f.failed == 1 {
			f.log.Warn("cannot replay KV events; routing by the snapshot until that works", "endpoint", r.endpoint, "error", err)
		}
	default:
		f.log.Debug("cannot check for dropped KV events", "endpoint", r.endpoint, "error", err)
		f.setState(Unverified)
	}
	r.release()
}

// release handles the messages that waited.
func (r *recovery) release() {
	for _, msg := range r.held.take() {
		r.f.receive(msg)
	}
}
