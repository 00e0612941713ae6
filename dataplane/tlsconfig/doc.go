// Package tlsconfig makes the TLS settings of both sides of the router, keeps them as new as their files, and says in words
// what goes wrong where only one side speaks TLS.
//
// A certificate, a key or a list of authorities that changes on disk holds for the next handshake: connections that are open
// stay open. What cannot be read then is logged, and what was read before it stays.
//
// SharedKey does without an authority: processes that know one secret trust each other and nobody else.
//
// # Concurrency
//
// Everything may be used from any goroutine. A handshake looks at its files under one lock, which costs a few µs beside the
// hundreds that its signature takes; nothing looks at them in between.
//
// # Errors
//
// ErrFiles: a file cannot be used, or a certificate and a key do not belong together. ErrPlain and ErrTLS: the other side
// speaks the other protocol; ErrKey: it has another shared key; Explain finds them in what crypto/tls says.
package tlsconfig
