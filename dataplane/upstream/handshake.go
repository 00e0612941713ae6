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

var (
	errPlainClient   = errors.New("client speaks plain HTTP")
	errSlowHandshake = errors.New("client did not finish its handshake in time")
)

// handshake begins TLS, in the goroutine that serves the connection, so that a slow client keeps nobody waiting. A client
// that speaks plain HTTP is answered 400, with a body that says so.
func (cl *Client) handshake(s *session) bool {
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
	// Who comes and goes is not worth a word, as health checks of load balancers do, nor is who is interrupted by a drain.
	if failed := cl.s.cfg.HandshakeFailed; failed != nil && !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, net.ErrClosed) {
		failed(cl.RemoteAddr(), err)
	}
	return false
}

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
