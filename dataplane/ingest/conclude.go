package ingest

import (
	"context"
	"errors"
	"time"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

// resync forgets what the rank held and learns it again from its replay. Where
// there is no replay it goes on from now: what the rank stored before stays
// unknown, which costs hits and never correctness.
func (s *Stream) resync() {
	s.drop()
	s.held.drop()
	s.degrade()
	s.resynced, s.orphans, s.failed = time.Now(), false, 0
	s.Stats.Resyncs.Add(1)
	if s.replayAt == "" {
		return
	}
	s.setState(Replaying)
	s.ask(askHistory)
}

// conclude takes in how a replay has ended, and returns how long to wait before
// it is asked for again; 0 is not at all.
func (s *Stream) conclude(a *ask, err error) (pause time.Duration) {
	if a.kind == askProof && err == nil {
		switch {
		case !a.met: // it has published less than was heard
			err = errStranger
		case s.held.any() && s.held.messages[0].Seq > s.next:
			err = errHole
		}
	}
	if errors.Is(err, errHole) && a.attempt < holeRetries {
		pause = holePause << (2 * a.attempt)
		a.attempt++
		return pause
	}
	s.drop()
	switch {
	case err != nil:
		s.failedAsk(a, err)
	case a.kind == askProof:
		s.proved(a)
	case a.kind == askSurvey:
		s.surveyed(a)
	default:
		s.learnt(a)
	}
	return 0
}

// giveUp ends the replay under way as one that has failed.
func (s *Stream) giveUp(err error) {
	if a := s.asking; a != nil {
		s.drop()
		s.failedAsk(a, err)
	}
}

// proved goes on with a rank that is the known one.
func (s *Stream) proved(a *ask) {
	if s.unproven {
		s.unproven, s.wait = false, s.m.cfg.ResyncEvery
		s.log.Info("KV events go on where the snapshot ended", "from", a.before, "next", s.next)
	} else if a.brought && !s.held.any() {
		s.Stats.Gaps.Add(1)
	}
	s.failed = 0
	s.setState(Live)
	s.told()
	if s.mute.asked && s.next == a.before && !s.held.any() {
		s.deny()
	}
	s.mute.asked = false
	s.release()
}

// learnt goes on with a rank whose history was replayed.
func (s *Stream) learnt(a *ask) {
	if a.fresh { // nothing published yet: sequence 0 is still to come
		s.lose()
		s.complete, s.joined, s.next = true, true, 0
	}
	// Orphans in the whole history will be there in the next replay too, and so
	// may a hole.
	if s.orphans && s.complete || s.short {
		s.backOff()
	} else {
		s.wait = s.m.cfg.ResyncEvery
	}
	s.orphans, s.resynced, s.quiet = false, time.Now(), time.Now()
	s.setState(Live)
	s.told()
	s.release()
}

// surveyed learns the rank anew where its replay has more than is known.
func (s *Stream) surveyed(a *ask) {
	s.resynced = time.Now()
	switch {
	case a.fresh && s.joined && s.next > 0: // it has published less than was heard
		s.stranger()
		s.heard = false
		s.resync()
	case s.Stats.State() == Degraded || a.first < s.first:
		s.resync()
	case a.holed:
		s.backOff()
	default: // the hole has left the rank's buffer
		s.short = false
	}
}

// failedAsk goes on without what was asked for.
func (s *Stream) failedAsk(a *ask, err error) {
	s.resynced = time.Now()
	level := severity(err)
	switch {
	case errors.Is(err, errStranger):
		s.log.Info("the replay of KV events is another process's; starting over", "from", a.from)
		s.stranger()
		s.heard = false // its numbers begin anew
		s.resync()
	case errors.Is(err, errGone), errors.Is(err, errHole):
		s.log.Log(context.Background(), level, "cannot find dropped KV events; starting over", "from", s.next, "error", err)
		if s.held.any() {
			s.Stats.Lost.Add(s.held.messages[0].Seq - min(s.next, s.held.messages[0].Seq))
		} else if !s.unproven {
			s.Stats.Gaps.Add(1)
		}
		s.resync()
	case a.kind == askHistory:
		s.log.Log(context.Background(), level, "cannot replay KV events; going on from now", "endpoint", s.replayAt, "error", err)
		s.backOff()
		if a.answered {
			s.degrade()
			s.release()
			return
		}
		s.held.drop() // applied as they came
		s.setState(Degraded)
	case a.kind == askSurvey:
		s.backOff()
	default:
		s.unanswered(err)
	}
}

// unanswered goes on without a proof. Content that something speaks against is
// dropped; what was only checked is kept and not credited until the rank tells
// more.
func (s *Stream) unanswered(err error) {
	switch {
	case s.mute.asked:
		s.mute.asked = false
		s.goMute()
	case s.held.any(), errors.Is(err, errOverflow), s.rank.Doubt() == worker.DoubtProcess:
		if s.held.any() {
			missing := s.held.messages[0].Seq - min(s.next, s.held.messages[0].Seq)
			s.Stats.Lost.Add(missing)
			s.log.Log(context.Background(), severity(err), "cannot fill a gap in KV events", "missing", missing, "from", s.next, "error", err)
		}
		s.degrade()
	case s.unproven:
		s.log.Warn("cannot replay KV events; routing by the snapshot until that works", "endpoint", s.replayAt, "error", err)
		s.backOff()
	default:
		s.log.Debug("cannot check for dropped KV events", "endpoint", s.replayAt, "error", err)
		s.failed = min(s.failed+1, maxCheckBackOff)
		s.setState(Unproven)
	}
	s.release()
}

// release handles the messages that waited.
func (s *Stream) release() {
	for _, msg := range s.held.take() {
		s.receive(msg)
	}
}
