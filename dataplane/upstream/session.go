package upstream

import (
	"crypto/tls"
	"net"
	"os"
	"sync/atomic"
	"time"
)

// session is TLS between a Client and its socket: what a Client does as bytes pass, it does with those of HTTP.
type session struct {
	*tls.Conn
	wire  *wire
	first [1]byte // of a request, waited for without a buffer
}

func newSession(nc net.Conn, cfg *tls.Config) *session {
	w := &wire{Conn: nc}
	return &session{Conn: tls.Server(w, cfg), wire: w}
}

var _ lender = (*session)(nil)

// readAhead implements lender.
func (s *session) readAhead() (room *aheadBuffer, n int, err error) {
	if n, err = s.Read(s.first[:]); n == 0 {
		return nil, 0, err
	}
	room = takeBuffer()
	room[0] = s.first[0]
	return room, 1 + s.rest(room[1:]), nil
}

// rest reads what was received already, of one record at most. It does not wait.
func (s *session) rest(p []byte) int {
	s.wire.dry = true
	n, _ := s.Read(p) // an error that lasts comes again
	s.wire.dry = false
	return n
}

// wire is the socket of a session.
type wire struct {
	net.Conn
	dry   bool        // nothing is to be read now
	hasty atomic.Bool // the connection is being closed, and nobody has time for it
}

// Read reads records.
func (w *wire) Read(p []byte) (int, error) {
	if w.dry {
		return 0, os.ErrDeadlineExceeded // crypto/tls reads on after it, by the next call
	}
	return w.Conn.Read(p)
}

// partingTime is what the last word to a client that waits may take. Its socket has room for it, but for one that means harm; a drain says
// it to one client after the other.
const partingTime = 5 * time.Millisecond

// SetWriteDeadline is called before that last word, with a deadline of 5 s.
func (w *wire) SetWriteDeadline(t time.Time) error {
	if w.hasty.Load() {
		t = time.Now().Add(partingTime)
	}
	return w.Conn.SetWriteDeadline(t)
}

// NetConn returns the connection below.
func (w *wire) NetConn() net.Conn { return w.Conn }
