//go:build !soak

package approx_test

// Lengths of histories, for `make test` and `make soak`.
const (
	uniqueBound = 4 << 20
	histories   = 8
)
