//go:build !soak

package ingest_test

// Lengths of histories, for `make test` and `make soak`.
const (
	histories = 2   // of each kind
	messages  = 400 // of a publisher with meaningless numbers
)
