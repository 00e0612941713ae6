package request

import (
	"net"
	"sync/atomic"
	"time"
)

// refusalsEvery is the pause between two log lines about failed TLS handshakes: a scanner makes
// thousands of them an hour, a client that trusts another authority one for each request.
const refusalsEvery = 10 * time.Second

// refusals limits the log lines about failed handshakes.
type refusals struct {
	logged atomic.Int64 // unix nanoseconds of the last line
	hushed atomic.Int64 // refusals since then
}

// refused counts a failed handshake, and logs it unless there was one just now.
func (s *Server) refused(client net.Addr, err error) {
	s.metrics.refused.Inc()
	now, last := time.Now().UnixNano(), s.refusals.logged.Load()
	if now-last < int64(refusalsEvery) || !s.refusals.logged.CompareAndSwap(last, now) {
		s.refusals.hushed.Add(1)
		return
	}
	s.cfg.Log.Warn("client could not begin TLS", "client", client.String(), "error", err, "not_logged_before", s.refusals.hushed.Swap(0))
}
