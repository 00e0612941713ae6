package tlsconfig

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
)

var (
	// ErrPlain means that TLS was begun with a peer that answers without it.
	ErrPlain = errors.New("worker speaks plain HTTP: use http://")
	// ErrTLS means that a peer answered plain HTTP with TLS.
	ErrTLS = errors.New("worker speaks TLS: use https://")
	// errHandshakeClosed is the reaction of servers without TLS, and of some with other
	// settings, to a first message that they do not understand.
	errHandshakeClosed = errors.New("worker closed the connection during the TLS handshake: does it speak TLS?")
)

// Explain adds the likely cause to the error of a client's handshake.
func Explain(err error) error {
	var record tls.RecordHeaderError
	switch {
	case errors.As(err, &record):
		return fmt.Errorf("%w: %w", ErrPlain, err)
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%w: %w", errHandshakeClosed, err)
	default:
		return err
	}
}

// Types of TLS records with which a server can begin (RFC 8446 5.1).
const (
	recordAlert     = 0x15
	recordHandshake = 0x16
)

// IsRecord reports whether bytes that should be HTTP begin a TLS record: a TLS server answers a
// plain request with an alert. No HTTP message begins with these bytes.
func IsRecord(b []byte) bool {
	return len(b) >= 2 && (b[0] == recordAlert || b[0] == recordHandshake) && b[1] == 3
}
