package ingress

import (
	"errors"
	"fmt"
)

var (
	// ErrRequest means that a request is not HTTP/1.1 as the router reads it.
	ErrRequest = errors.New("ingress: malformed request")
	// ErrBodyTooLarge means that a request's body is longer than Config.MaxBody.
	ErrBodyTooLarge = errors.New("ingress: body too large")
	// ErrHeadTooLarge means that a request's head or trailer is longer than Config.MaxHead.
	ErrHeadTooLarge = errors.New("ingress: head too large")
	// ErrExpectation means that a request expects something other than 100-continue.
	ErrExpectation = errors.New("ingress: unknown expectation")
	// ErrVersion means that a request is of another version than HTTP/1.1 and HTTP/1.0.
	ErrVersion = errors.New("ingress: unknown version of HTTP")
	// ErrSlowRequest means that a request did not arrive in time.
	ErrSlowRequest = errors.New("ingress: request too slow")
	// ErrFull means that all connections that clients may have are in use.
	ErrFull = errors.New("ingress: too many connections")
	// ErrClosed means that the Watcher was closed.
	ErrClosed = errors.New("ingress: closed")
)

var (
	errNoMethod  = fmt.Errorf("%w: it does not begin with a method", ErrRequest)
	errBareLF    = fmt.Errorf("%w: a line of its head does not end with CRLF", ErrRequest)
	errTLSClient = fmt.Errorf("%w: it is TLS, which this port does not speak: use http://", ErrRequest)

	errPlainClient   = errors.New("client speaks plain HTTP")
	errStalled       = errors.New("client takes nothing of its answer")
	errSlowHandshake = errors.New("client did not finish its handshake in time")

	// errParked ends fasthttp's wait for the next request; the connection waits on without
	// buffers.
	errParked = errors.New("ingress: connection parked")
)
