package ingest

import "encoding/json"

// Complete reports whether the stream has seen every event since its rank's
// start. Only for a stream that is at rest.
func (s *Stream) Complete() bool { return s.follower.complete }

// SavedNext returns the sequence number that a snapshot of a rank goes on with.
func SavedNext(meta []byte) uint64 {
	var v saved
	if err := json.Unmarshal(meta, &v); err != nil {
		panic(err)
	}
	return v.At.Next
}
