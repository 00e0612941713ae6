package ingest

import "time"

// soonest bounds how fast ticks follow each other while a check is overdue.
const soonest = 100 * time.Millisecond

// check runs on a timer and looks for what no live message tells.
func (s *Stream) check() {
	if s.isMute() || s.replayAt == "" || s.asking != nil {
		return
	}
	now := time.Now()
	again := now.Sub(s.resynced) >= s.wait
	switch st := s.Stats.State(); {
	case s.unproven:
		if again {
			s.ask(askProof)
		}
	case st != Live && st != Unproven, s.short && again:
		if again {
			s.ask(askSurvey)
		}
	case !now.Before(s.due()):
		// A message that was dropped leaves a hole only when the next one comes; on
		// a rank that fell quiet, that may be never.
		s.quiet, s.checked = now, now
		s.ask(askProof)
	}
}

// due returns when the rank is to be checked: TailCheck after its last message,
// for then its next one shows a gap by itself. One whose overlaps turn out not
// to be there is checked while it is busy too, and the more often the fewer of
// them are.
func (s *Stream) due() time.Time {
	every, from := s.m.cfg.TailCheck, s.quiet
	if often := s.rank.Trust.CheckEvery(time.Now()); often < every {
		every, from = often, s.checked
	}
	return from.Add(every << s.failed)
}

// pace returns how long until the next check.
func (s *Stream) pace() time.Duration {
	s.turn.Lock()
	defer s.turn.Unlock()
	return min(max(time.Until(s.due()), soonest), s.m.cfg.TailCheck)
}

// told notes that what is known of the rank has just been shown to be so.
func (s *Stream) told() { s.rank.Trust.Told(time.Now()) }
