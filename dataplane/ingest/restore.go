package ingest

// begin learns what the rank holds. What a snapshot restored serves until the
// rank has answered: its worst effect is a worse choice. The message before the
// snapshot's position tells whether the process is still the same: it has a
// time stamp, so no other process has the same one.
func (s *Stream) begin() {
	if s.unproven {
		s.ask(askProof)
		return
	}
	s.resync()
}
