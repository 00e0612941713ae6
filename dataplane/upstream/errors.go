package upstream

import (
	"errors"
	"fmt"
	"io"
	"os"
)

var (
	// ErrDial means that there was no connection, or no TLS session; the worker has seen
	// nothing of the request.
	ErrDial = errors.New("upstream: dial failed")
	// ErrShortage is ErrDial for lack of a descriptor, a port or memory on this machine, which says
	// nothing of the worker.
	ErrShortage = fmt.Errorf("%w on this machine", ErrDial)
	// ErrNoResponse means that the connection ended before the first byte of an answer. The
	// worker may have seen the request.
	ErrNoResponse = errors.New("upstream: no response")
	// ErrStale is ErrNoResponse of a kept-alive connection: the worker has most likely closed it
	// before the request came.
	ErrStale = errors.New("upstream: kept-alive connection was closed")
	// ErrTimeout means that HeaderTimeout or ReadTimeout passed without a byte.
	ErrTimeout = errors.New("upstream: timeout")
	// ErrCanceled means that the request's Canceler was canceled.
	ErrCanceled = errors.New("upstream: canceled")
	// ErrUnsent is ErrCanceled before a byte of the request was sent.
	ErrUnsent = fmt.Errorf("%w before the request was sent", ErrCanceled)
	// ErrBadResponse means that the answer is not HTTP/1.x as this package reads it, or breaks
	// a limit.
	ErrBadResponse = errors.New("upstream: bad response")
	// ErrTruncated means that the answer began and the connection ended before the answer did.
	ErrTruncated = errors.New("upstream: response cut short")
	// ErrBadRequest means that the request holds bytes that would break its own framing.
	ErrBadRequest = errors.New("upstream: bad request")
	// ErrClosed means that the Transport was closed.
	ErrClosed = errors.New("upstream: closed")
	// ErrClient means that the client's side of a Stream failed, or gave up before the end of
	// the body.
	ErrClient = errors.New("upstream: client failed")
)

// readError names the failure of a read; early is the error for an end of the connection at
// this point of the answer.
func readError(cause, early error) error {
	switch {
	case errors.Is(cause, os.ErrDeadlineExceeded):
		return ErrTimeout
	case errors.Is(cause, io.EOF):
		return early
	default:
		return fmt.Errorf("%w: %w", early, cause)
	}
}
