// Package jwks verifies JSON Web Tokens (RFC 7519) by the keys of a set (RFC 7517), which is a file
// or at an issuer's URL.
//
// A token is accepted if it has one signature by a public key of the set that its "kid" names, by
// an asymmetric algorithm that suits the key, is within "exp", which it must have, and "nbf",
// and is of the configured issuer and for the configured audience. Clocks may differ by 30 s.
// Keys, addresses and certificates in a token's header are ignored.
//
// The set is read again every 5 minutes, a file every second. A token with an unknown "kid" has it
// read at once, at most every 10 s however many there are, and no request waits for it. A set that
// cannot be had, or has no usable key, leaves the one of before in force.
//
// # Concurrency
//
// [Verifier.Verify] and [Verifier.Generation] may be called from any goroutine and wait for nobody.
// [Verifier.Run] reads the set, in one goroutine.
//
// # Ownership
//
// A [Token] is the caller's.
//
// # Errors
//
// [ErrSource] is a set that cannot be used. A refused token gets a *[TokenError].
package jwks
