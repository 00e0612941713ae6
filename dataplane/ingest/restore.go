package ingest

import (
	"context"
	"errors"
	"time"
)

// begin learns what the rank holds.
func (s *Stream) begin(ctx context.Context) {
	if s.unproven {
		s.reconcile(ctx, s.m.cfg.ReplayTimeout)
		return
	}
	s.resync(ctx)
}

// reconcile asks the rank whether it is still the process of the snapshot, and
// applies what that one has published since. The message before the snapshot's
// position tells: it has a time stamp, so no other process has the same one.
// What is restored serves until there is an answer, for its worst effect is a
// worse choice.
func (s *Stream) reconcile(ctx context.Context, timeout time.Duration) {
	from := s.next
	err := s.catchUp(ctx, timeout)
	s.checked = s.Stats.Batches.Load()
	switch {
	case ctx.Err() != nil:
	case err == nil:
		s.unproven = false
		s.wait = s.m.cfg.ResyncEvery
		s.log.Info("KV events go on where the snapshot ended", "from", from, "next", s.next)
		s.setState(Live)
	case errors.Is(err, errHole), errors.Is(err, errStranger):
		s.log.Info("cannot go on from the snapshot; starting over", "from", from, "error", err)
		s.startOver(ctx, err)
	default:
		s.log.Warn("cannot replay KV events; routing by the snapshot until that works", "endpoint", s.replayAt, "error", err)
		s.resynced = time.Now()
		s.backOff()
	}
}

// prove is for the first live message: from here on what is restored must be
// known to be right. Where nobody answers it is forgotten, as the message may
// be another process's.
func (s *Stream) prove(ctx context.Context) {
	s.reconcile(ctx, min(tailTimeout, s.m.cfg.ReplayTimeout))
	if s.unproven && ctx.Err() == nil {
		s.degrade()
	}
}
