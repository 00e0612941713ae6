// Package tlstest makes certificates for tests: an authority, and what it signs, as PEM files.
package tlstest
