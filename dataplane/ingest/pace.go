package ingest

import "time"

// pace returns how long until the next check: TailCheck, and less for a rank
// whose overlaps turn out not to be there, by the advice of worker.Trust.
func (s *Stream) pace() time.Duration {
	return min(s.rank.Trust.CheckEvery(time.Now()), s.m.cfg.TailCheck)
}

// doubted reports whether the rank's accuracy asks for checks more often than
// TailCheck: then it is checked while it is busy too, where else its next
// message shows a gap by itself.
func (s *Stream) doubted() bool { return s.pace() < s.m.cfg.TailCheck }

// told notes that what is known of the rank has just been shown to be so.
func (s *Stream) told() { s.rank.Trust.Told(time.Now()) }
