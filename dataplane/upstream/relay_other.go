//go:build !linux

package upstream

// relay and inbox are not needed here.
type (
	relay struct{}
	inbox struct{}
)

// relays says that each piece of a stream is waited for by itself.
func (s *Stream) relays() bool { return false }

// relay is not reached.
func (s *Stream) relay() (n int64, worker, client error) { return 0, nil, nil }
