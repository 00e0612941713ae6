package ingest

// Complete reports whether the stream has seen every event since its rank's
// start. Only for a stream that is at rest.
func (s *Stream) Complete() bool { return s.complete }
