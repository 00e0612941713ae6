package upstream

import (
	"errors"
	"fmt"
	"io"
	"os"
)

var (
	// ErrDial means that no connection (or TLS session) came about; the worker has seen nothing of the request.
	ErrDial = errors.New("proxy: dial failed")
	// ErrNoResponse means that the connection ended before the first byte of an answer. The worker may have seen the request.
	ErrNoResponse = errors.New("proxy: no response")
	// ErrTimeout means that HeaderTimeout or ReadTimeout passed without a byte.
	ErrTimeout = errors.New("proxy: timeout")
	// ErrCanceled means that the request's Canceler was canceled.
	ErrCanceled = errors.New("proxy: canceled")
	// ErrBadResponse means that the answer is not HTTP/1.x as we accept it, or breaks a limit.
	ErrBadResponse = errors.New("proxy: bad response")
	// ErrTruncated means that the answer began and the connection ended before the answer did.
	ErrTruncated = errors.New("proxy: response cut short")
	// ErrBadRequest means that the request holds bytes that would break its own framing.
	ErrBadRequest = errors.New("proxy: bad request")
	// ErrRequest means that a client's request is not HTTP/1.1 as we read it.
	ErrRequest = errors.New("proxy: malformed request")
	// ErrBodyTooLarge means that a client's request has a longer body than may be.
	ErrBodyTooLarge = errors.New("proxy: body too large")
	// ErrHeadTooLarge means that the head or the trailer of a client's request is too long.
	ErrHeadTooLarge = errors.New("proxy: head too large")
	// ErrExpectation means that a client expects something that is not known here.
	ErrExpectation = errors.New("proxy: unknown expectation")
	// ErrSlowRequest means that a client's request did not arrive in time.
	ErrSlowRequest = errors.New("proxy: request too slow")
	// ErrClosed means that the Transport or Watcher was closed.
	ErrClosed = errors.New("proxy: closed")
	// ErrClient means that the client's side of a Stream failed, or gave up before the end of the body.
	ErrClient = errors.New("proxy: client failed")
)

var (
	errNoRequest = fmt.Errorf("%w: it does not begin with a method", ErrRequest)
	errTLSClient = fmt.Errorf("%w: it is TLS, which this port does not speak: use http://", ErrRequest)
)

// Retryable tells whether another worker may be tried: no byte of an answer was seen, and nothing points at the request.
func Retryable(err error) bool {
	return errors.Is(err, ErrDial) || errors.Is(err, ErrNoResponse)
}

// readError names the failure of a read; early is what the end of the connection means at this point of the answer.
func readError(cause, early error) error {
	switch {
	case errors.Is(cause, os.ErrDeadlineExceeded):
		return ErrTimeout
	case errors.Is(cause, io.EOF):
		// The usual case, a worker that died, needs no cause beside it.
		return early
	default:
		return fmt.Errorf("%w: %w", early, cause)
	}
}
