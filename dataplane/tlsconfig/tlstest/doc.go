// Package tlstest makes certificates for tests: an authority, and certificates that it signs, as
// PEM files.
package tlstest
