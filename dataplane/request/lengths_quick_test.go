//go:build !soak

package request_test

// clientRounds is how often an ill client asks each API, for `make test` and `make soak`.
const clientRounds = 4
