// Package tlsconfig makes the TLS settings of both sides of the router, follows changes of
// their files, and explains failures where only one side speaks TLS.
//
// A certificate, a key or a list of authorities that changes on disk holds for the next
// handshake; open connections stay open. A file that cannot be read then is logged, and the
// earlier content stays in use.
//
// SharedKey needs no authority: processes that know one secret trust each other and no other.
//
// # Concurrency
//
// Everything may be used from any goroutine. A handshake checks its files under one lock, which
// costs a few µs beside the hundreds of its signature; no file is read in between.
//
// # Errors
//
// ErrFiles is an unusable file, or a certificate and a key that do not belong together.
// ErrPlain and ErrTLS mean that the other side speaks the other protocol, ErrKey that it has
// another shared key; Explain finds them in the errors of crypto/tls.
package tlsconfig
