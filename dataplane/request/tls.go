package request

import (
	"net"
	"sync/atomic"
	"time"
)

// refusalsEvery is the pause between two log lines about failed TLS handshakes: a scanner causes
// thousands an hour, a client without the right authority one for each request.
const refusalsEvery = 10 * time.Second

// refusals are failed TLS handshakes of clients.
type refusals struct {
	logged   atomic.Int64 // unix nanoseconds of the last line
	unlogged atomic.Int64 // refusals since then
}

// refused counts a failed handshake, and logs it unless another was logged just before.
func (s *Server) refused(client net.Addr, err error) {
	s.requests.metrics.tlsRefused.Inc()
	now, last := time.Now().UnixNano(), s.refusals.logged.Load()
	if now-last < int64(refusalsEvery) || !s.refusals.logged.CompareAndSwap(last, now) {
		s.refusals.unlogged.Add(1)
		return
	}
	s.requests.log.Warn("TLS handshake with client failed", "client", client.String(), "error", err,
		"not_logged_before", s.refusals.unlogged.Swap(0))
}
