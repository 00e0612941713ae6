package ingest

import (
	"context"
	"time"

	"github.com/warmpath/warmpath/zmq"
)

// resync forgets what the rank held and learns it again from its replay. Where
// there is no replay it goes on from now: what the rank stored before stays
// unknown, which costs hits and never correctness.
func (s *Stream) resync(ctx context.Context) {
	s.clear()
	s.resynced = time.Now()
	s.orphans, s.complete, s.next = false, false, 0
	s.Stats.Resyncs.Add(1)
	if s.replayAt == "" {
		s.Stats.setState(Degraded)
		return
	}
	s.Stats.setState(Replaying)
	first := true
	n, err := s.replay(ctx, 0, func(msg zmq.Message) {
		if first {
			first = false
			s.complete = msg.Seq == 0
			s.next = msg.Seq // what fell out of the rank's buffer is gone
		}
		s.applyReplayed(msg)
	})
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		s.log.Warn("cannot replay KV events; going on from now", "endpoint", s.replayAt, "replayed", n, "error", err)
		s.clear()
		s.complete = false
		s.Stats.setState(Degraded)
		return
	}
	if n == 0 { // nothing published yet: sequence 0 is still to come
		s.complete = true
	}
	s.Stats.setState(Live)
}

// gap fills the hole between the message expected and the one that came, or
// starts over when the rank no longer has what is missing.
func (s *Stream) gap(ctx context.Context, came uint64) {
	if s.next == 0 && !s.complete {
		s.next = came // joined without history
		return
	}
	s.Stats.Gaps.Add(1)
	missing := came - s.next
	if s.replayAt != "" {
		_, err := s.replay(ctx, s.next, s.applyReplayed)
		if ctx.Err() != nil {
			return
		}
		if err == nil && s.next >= came {
			s.Stats.setState(Live)
			return
		}
		s.log.Warn("cannot fill a gap in KV events", "missing", missing, "from", s.next, "error", err)
	}
	s.Stats.Lost.Add(missing)
	s.resync(ctx)
	if s.next < came {
		s.next = came
	}
}

// applyReplayed applies a replayed message if it is the next one. A replay may
// begin later than asked, or answer with a newer process's numbers: then the
// hole stays open and the caller starts over.
func (s *Stream) applyReplayed(msg zmq.Message) {
	if msg.Seq == s.next {
		s.Stats.Replayed.Add(1)
		s.apply(msg)
	}
}

func (s *Stream) replay(ctx context.Context, from uint64, fn func(zmq.Message)) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, s.m.cfg.ReplayTimeout)
	defer cancel()
	return s.m.replay(ctx, s.replayAt, from, func(msg zmq.Message) error {
		fn(msg)
		return ctx.Err()
	})
}

// checkTail asks for messages after the last one applied. A message that was
// dropped leaves a hole only when the next one comes; on a rank that fell
// quiet, that may be never.
func (s *Stream) checkTail(ctx context.Context) {
	if s.replayAt == "" || s.Stats.State() != Live || len(s.queue) > 0 {
		return
	}
	before := s.next
	if _, err := s.replay(ctx, s.next, s.applyReplayed); err != nil && ctx.Err() == nil {
		s.log.Debug("cannot check for dropped KV events", "endpoint", s.replayAt, "error", err)
	}
	if s.next > before {
		s.Stats.Gaps.Add(1)
	}
}
