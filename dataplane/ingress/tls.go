package ingress

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/warmpath/warmpath/dataplane/socket"
)

// session is TLS between a Client and its socket: a Client reads and writes the bytes of HTTP.
type session struct {
	*tls.Conn
	wire  *wire
	first [1]byte // of a request, waited for without a buffer
}

var _ socket.AheadReader = (*session)(nil)

func newSession(nc net.Conn, out *sender, cfg *tls.Config) *session {
	w := &wire{Conn: nc, out: out}
	return &session{Conn: tls.Server(w, cfg), wire: w}
}

// ReadAhead implements socket.AheadReader.
func (s *session) ReadAhead() (b *socket.Buffer, n int, err error) {
	if n, err = s.Read(s.first[:]); n == 0 {
		return nil, 0, err
	}
	b = socket.TakeBuffer()
	b[0] = s.first[0]
	return b, 1 + s.rest(b[1:]), nil
}

// rest reads bytes that were received already, of one record at most. It does not wait.
func (s *session) rest(p []byte) int {
	s.wire.dry = true
	n, _ := s.Read(p) // an error that lasts comes again
	s.wire.dry = false
	return n
}

// handshakeTimeout is for two round trips and a signature over a bad link. A client that never
// answers must not keep its connection.
const handshakeTimeout = 10 * time.Second

// handshake begins the session, in the goroutine of the connection: a slow client keeps nobody
// waiting. A client that speaks plain HTTP is answered 400, with a body that says so. failed is
// told of errors, unless a client comes and goes, as health checks of load balancers do, or a
// drain interrupts it.
func (s *session) handshake(failed func(client net.Addr, err error)) bool {
	ctx, cancel := context.WithTimeout(context.Background(), handshakeTimeout)
	defer cancel()
	err := s.HandshakeContext(ctx)
	if err == nil {
		return true
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = errSlowHandshake
	}
	var record tls.RecordHeaderError
	if errors.As(err, &record) && record.Conn != nil && beginsHTTP(record.RecordHeader) {
		err = errPlainClient
		answerPlain(record.Conn)
	}
	if failed != nil && !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, net.ErrClosed) {
		failed(s.RemoteAddr(), err)
	}
	return false
}

// beginsHTTP reports whether the five bytes in place of a record's header begin a request: a
// method in capital letters.
func beginsHTTP(header [5]byte) bool {
	for _, c := range header {
		if (c < 'A' || c > 'Z') && c != ' ' && c != '/' {
			return false
		}
	}
	return header[0] >= 'A' && header[0] <= 'Z'
}

const plainAnswer = `{"error":{"message":"This port takes HTTPS, not plain HTTP.","type":"invalid_request_error","param":null,"code":"https_required"}}`

// maxPlainRequest bounds the plain request that is read so that its client sees the answer; see
// Client.linger.
const maxPlainRequest = 1 << 20

// answerPlain answers a request that came without TLS.
func answerPlain(nc net.Conn) {
	if nc.SetDeadline(time.Now().Add(lingerTime)) != nil {
		return
	}
	_, err := io.WriteString(nc, "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nConnection: close\r\n"+
		"Content-Length: "+strconv.Itoa(len(plainAnswer))+"\r\n\r\n"+plainAnswer)
	tcp := tcpBelow(nc)
	if err != nil || tcp == nil || tcp.CloseWrite() != nil {
		return
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(nc, maxPlainRequest))
}

// wire is the socket of a session.
type wire struct {
	net.Conn
	out     *sender
	dry     bool        // nothing is to be read now
	hurried atomic.Bool // the connection is being closed by a drain
}

// Read reads records.
func (w *wire) Read(p []byte) (int, error) {
	if w.dry {
		return 0, os.ErrDeadlineExceeded // crypto/tls reads on after it, at the next call
	}
	return w.Conn.Read(p)
}

// Write writes records.
func (w *wire) Write(p []byte) (int, error) { return w.out.Write(p) }

// hurriedClose bounds TLS's closing message during a drain, which sends it to one client after
// the other. A socket has room for it, except where its client means harm.
const hurriedClose = 5 * time.Millisecond

// SetWriteDeadline is called before the closing message, with a deadline of 5 s.
func (w *wire) SetWriteDeadline(t time.Time) error {
	w.out.others.Store(true)
	if w.hurried.Load() {
		t = time.Now().Add(hurriedClose)
	}
	return w.Conn.SetWriteDeadline(t)
}

// NetConn returns the connection below.
func (w *wire) NetConn() net.Conn { return w.Conn }
