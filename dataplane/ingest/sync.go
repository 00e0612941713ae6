package ingest

import (
	"context"
	"errors"
	"time"

	"github.com/warmpath/warmpath/zmq"
)

var (
	// errHole is a replay that lacks messages.
	errHole = errors.New("ingest: the replay lacks messages")
	// errStranger is a replay by another process than the one that is known.
	errStranger = errors.New("ingest: the replay is another process's")
	// errEnough ends a replay that was only asked to see whether it answers.
	errEnough = errors.New("ingest: enough")
)

const (
	// tailTimeout bounds the replays of a check: they are short, engines look at
	// requests every 100 ms at worst, and live events wait meanwhile.
	tailTimeout = 2 * time.Second
	// maxBackOff bounds the time between resyncs that do not help, in ResyncEvery:
	// 5 minutes by default.
	maxBackOff = 32
)

// resync forgets what the rank held and learns it again from its replay. Where
// there is no replay it goes on from now: what the rank stored before stays
// unknown, which costs hits and never correctness.
func (s *Stream) resync(ctx context.Context) {
	s.degrade()
	s.resynced, s.orphans = time.Now(), false
	s.Stats.Resyncs.Add(1)
	if s.replayAt == "" {
		return
	}
	s.setState(Replaying)
	n, err := s.replay(ctx, 0, s.m.cfg.ReplayTimeout, s.takeReplayed)
	s.checked = s.Stats.Batches.Load()
	switch {
	case ctx.Err() != nil:
		return
	case err != nil:
		s.log.Log(ctx, severity(err), "cannot replay KV events; going on from now", "endpoint", s.replayAt, "replayed", n, "error", err)
		s.degrade()
		s.resynced = time.Now()
		s.backOff()
		return
	case n == 0: // nothing published yet: sequence 0 is still to come
		s.complete, s.joined = true, true
	}
	// Orphans in the whole history will be there in the next replay too.
	if s.orphans && s.complete {
		s.backOff()
	} else {
		s.wait = s.m.cfg.ResyncEvery
	}
	s.orphans = false
	s.setState(Live)
	s.told()
}

// takeReplayed handles one message of a resync.
func (s *Stream) takeReplayed(msg zmq.Message) error {
	switch {
	case !s.joined: // what fell out of the rank's buffer is gone
		s.complete = msg.Seq == 0
	case msg.Seq < s.next:
		return nil
	case msg.Seq > s.next:
		s.Stats.Lost.Add(msg.Seq - s.next)
	}
	s.reach(msg.Seq)
	s.Stats.Replayed.Add(1)
	s.apply(msg, false)
	return nil
}

// gap fills the hole between the message expected and the one that came, or
// starts over when the rank no longer has what is missing.
func (s *Stream) gap(ctx context.Context, came uint64) {
	if !s.joined {
		s.reach(came)
		return
	}
	s.Stats.Gaps.Add(1)
	err := errHole
	if s.replayAt != "" {
		err = s.catchUp(ctx, s.m.cfg.ReplayTimeout)
	}
	if ctx.Err() != nil || (err == nil && s.next >= came) {
		return
	}
	missing := came - min(s.next, came)
	s.Stats.Lost.Add(missing)
	s.log.Log(ctx, severity(err), "cannot fill a gap in KV events", "missing", missing, "from", s.next, "error", err)
	s.startOver(ctx, err)
	s.reach(came)
}

// startOver resyncs after a replay that did not help. One that did not even
// answer is not asked for more: live events wait meanwhile.
func (s *Stream) startOver(ctx context.Context, err error) {
	if errors.Is(err, errStranger) {
		s.Stats.Restarts.Add(1)
	}
	if err == nil || errors.Is(err, errHole) || errors.Is(err, errStranger) {
		s.resync(ctx)
		return
	}
	s.resynced = time.Now()
	s.degrade()
}

// catchUp applies what the rank has published since the last message applied.
// It asks for that one again: who answers with something else is not the
// process that is known, and what is believed of it is worth nothing.
func (s *Stream) catchUp(ctx context.Context, timeout time.Duration) error {
	from := s.next - min(s.next, 1)
	met := from == s.next // at 0 there is nothing to compare
	_, err := s.replay(ctx, from, timeout, func(msg zmq.Message) error {
		switch {
		case met && msg.Seq < s.next:
			return nil
		case met && msg.Seq == s.next:
			s.Stats.Replayed.Add(1)
			s.apply(msg, false)
			return nil
		case !met && msg.Seq == from && s.isLast(msg):
			met = true
			return nil
		case !met && msg.Seq == from:
			return errStranger
		default:
			return errHole
		}
	})
	if err == nil && !met {
		return errStranger // it has published less than was heard
	}
	return err
}

// isLast reports whether msg has the payload that was applied last.
func (s *Stream) isLast(msg zmq.Message) bool {
	return s.digest(msg) == s.last
}

// digest is a hash of a message's payload under the index's key, which a
// snapshot keeps.
func (s *Stream) digest(msg zmq.Message) uint64 { return uint64(s.m.index.Digest(msg.Payload)) }

// reach makes seq the next message. Where others are missing before it, what
// the rank held cannot be told from what it has dropped since.
func (s *Stream) reach(seq uint64) {
	if s.joined && s.next < seq {
		s.lose()
		s.complete = false
	}
	s.next, s.joined = max(s.next, seq), true
}

// degrade goes on without the rank's history.
func (s *Stream) degrade() {
	s.lose()
	s.complete, s.joined, s.unproven, s.next = false, false, false, 0
	s.setState(Degraded)
}

// lose clears what does not belong to any position.
func (s *Stream) lose() {
	s.applying.Lock()
	defer s.applying.Unlock()
	s.clear()
	s.mark = position{}
}

// backOff lets more time pass before the next resync than before this one.
func (s *Stream) backOff() {
	s.wait = min(2*s.wait, maxBackOff*s.m.cfg.ResyncEvery)
}

// replay asks the rank for its messages from a sequence on.
func (s *Stream) replay(ctx context.Context, from uint64, timeout time.Duration, fn func(zmq.Message) error) (int, error) {
	if !s.asks.take(time.Now()) {
		return 0, errOften
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return s.m.replay(ctx, s.replayAt, from, func(msg zmq.Message) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return fn(msg)
	})
}

// check runs on a timer and looks for what no live message tells.
func (s *Stream) check(ctx context.Context) {
	if s.isMute() || s.replayAt == "" {
		return
	}
	if s.Stats.State() != Live {
		s.relearn(ctx)
		return
	}
	if n := s.Stats.Batches.Load(); n != s.checked && !s.doubted() {
		s.checked = n // not quiet: its next message will show a gap by itself
		return
	}
	s.checkTail(ctx)
}

// checkTail asks for messages after the last one applied. A message that was
// dropped leaves a hole only when the next one comes; on a rank that fell
// quiet, that may be never.
func (s *Stream) checkTail(ctx context.Context) {
	before := s.next
	err := s.catchUp(ctx, min(tailTimeout, s.m.cfg.ReplayTimeout))
	s.checked = s.Stats.Batches.Load()
	switch {
	case ctx.Err() != nil:
	case errors.Is(err, errHole), errors.Is(err, errStranger):
		s.Stats.Gaps.Add(1)
		s.heard = s.heard && !errors.Is(err, errStranger) // its numbers begin anew
		s.log.Warn("cannot find dropped KV events; starting over", "from", s.next, "error", err)
		s.startOver(ctx, err)
	case err != nil:
		s.log.Debug("cannot check for dropped KV events", "endpoint", s.replayAt, "error", err)
	case s.next > before:
		s.Stats.Gaps.Add(1)
		s.told()
	default:
		s.told()
	}
}

// relearn learns the history of a rank whose replay did not answer before. It
// forgets nothing as long as there is still no answer.
func (s *Stream) relearn(ctx context.Context) {
	if time.Since(s.resynced) < s.wait {
		return
	}
	if s.unproven {
		s.reconcile(ctx, min(tailTimeout, s.m.cfg.ReplayTimeout))
		return
	}
	_, err := s.replay(ctx, s.next, min(tailTimeout, s.m.cfg.ReplayTimeout), func(zmq.Message) error { return errEnough })
	if err == nil || errors.Is(err, errEnough) {
		s.resync(ctx)
		return
	}
	s.resynced = time.Now()
	s.backOff()
}
