//go:build soak

package sim

// Cases of the tests beside forecasts, for `make test` and `make soak`.
const (
	forecasts   = 7 // of each table
	scaledLoads = 2 // polled, and by messages
)

// allStreams plays every stream that lies, not only one of each kind.
const allStreams = true
