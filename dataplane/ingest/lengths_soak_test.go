//go:build soak

package ingest_test

// Lengths of histories, for `make test` and `make soak`.
const (
	histories = 6    // of each kind
	messages  = 1000 // of a publisher with meaningless numbers
)
