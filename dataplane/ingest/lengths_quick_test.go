//go:build !soak

package ingest_test

// Lengths of histories, for `make test` and `make soak`.
const (
	histories = 1   // of each kind
	messages  = 100 // of a publisher with meaningless numbers
)
