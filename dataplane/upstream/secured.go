package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strconv"
	"syscall"
	"time"
)

// A handshake is two round trips and a signature. Ten seconds are for a client behind a bad link; one that never answers
// must not keep its connection.
const handshakeTimeout = 10 * time.Second

// RefuseFunc is told of each handshake that failed, from the connection's goroutine.
type RefuseFunc func(client net.Addr, err error)

// ListenTLS puts TLS on a listener, best one of Watcher.Listen. Handshakes run in the goroutines that serve the connections,
// so that a slow client keeps nobody waiting. A client that speaks plain HTTP is answered 400, with a body that says so.
func ListenTLS(ln net.Listener, cfg *tls.Config, refused RefuseFunc) net.Listener {
	if l, ok := ln.(*watchedListener); ok {
		l.tls = cfg // its Clients read and write by TLS
	}
	return &securedListener{ln, cfg, refused, handshakeTimeout}
}

type securedListener struct {
	net.Listener
	cfg     *tls.Config
	refused RefuseFunc
	limit   time.Duration // of a handshake
}

// Accept waits for the next client; its handshake is yet to come.
func (l *securedListener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if cl, ok := nc.(*Client); ok {
		if s, ok := cl.Conn.(*session); ok {
			return &secured{Conn: cl, tls: s.Conn, refused: l.refused, limit: l.limit}, nil
		}
	}
	c := tls.Server(nc, l.cfg)
	return &secured{Conn: c, tls: c, refused: l.refused, limit: l.limit}, nil
}

// secured is a client connection with TLS, as fasthttp knows one.
type secured struct {
	net.Conn // a Client, or tls where none is watched
	tls      *tls.Conn
	refused  RefuseFunc
	limit    time.Duration // of the handshake
	failed   bool          // the handshake; there is nothing to read
}

// Handshake makes the TLS session; fasthttp calls it first. After it failed, Read finds the end of the connection.
func (s *secured) Handshake() error {
	ctx, cancel := context.WithTimeout(context.Background(), s.limit)
	defer cancel()
	err := s.tls.HandshakeContext(ctx)
	if err == nil {
		return nil
	}
	s.failed = true
	if errors.Is(err, context.DeadlineExceeded) {
		err = errSlowHandshake
	}
	var record tls.RecordHeaderError
	if errors.As(err, &record) && record.Conn != nil && beginsHTTP(record.RecordHeader) {
		err = errPlainClient
		answerPlain(record.Conn)
	}
	// Who comes and goes is not worth a word, as health checks of load balancers do, nor is who is interrupted by a drain.
	if s.refused != nil && !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, net.ErrClosed) {
		s.refused(s.RemoteAddr(), err)
	}
	return err
}

var (
	errPlainClient   = errors.New("client speaks plain HTTP")
	errSlowHandshake = errors.New("client did not finish its handshake in time")
)

// beginsHTTP tells whether the five bytes where a record's header should be begin a request: a method in capital letters.
func beginsHTTP(header [5]byte) bool {
	for _, c := range header {
		if (c < 'A' || c > 'Z') && c != ' ' && c != '/' {
			return false
		}
	}
	return header[0] >= 'A' && header[0] <= 'Z'
}

const plainAnswer = `{"error":{"message":"This port takes HTTPS, not plain HTTP.","type":"invalid_request_error","param":null,"code":"https_required"}}`

// Limits of what a client that must be told of its mistake may still send. Closing a connection with unread bytes resets it,
// and the reset would overtake the answer.
const (
	plainLinger = 2 * time.Second
	plainBytes  = 1 << 20
)

// answerPlain answers a request that came without TLS.
func answerPlain(nc net.Conn) {
	if nc.SetDeadline(time.Now().Add(plainLinger)) != nil {
		return
	}
	_, err := io.WriteString(nc, "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nConnection: close\r\n"+
		"Content-Length: "+strconv.Itoa(len(plainAnswer))+"\r\n\r\n"+plainAnswer)
	tcp := unwrap(nc)
	if err != nil || tcp == nil || tcp.CloseWrite() != nil {
		return
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(nc, plainBytes))
}

// Read reads from the client.
func (s *secured) Read(p []byte) (int, error) {
	if s.failed {
		return 0, io.EOF
	}
	return s.Conn.Read(p)
}

// ConnectionState tells what was agreed on.
func (s *secured) ConnectionState() tls.ConnectionState { return s.tls.ConnectionState() }

// NetConn returns the connection below.
func (s *secured) NetConn() net.Conn { return s.Conn }

// CloseWrite tells the client that nothing more comes.
func (s *secured) CloseWrite() error { return s.tls.CloseWrite() }

var _ interface {
	Handshake() error
	ConnectionState() tls.ConnectionState
} = (*secured)(nil) // by which fasthttp knows TLS
