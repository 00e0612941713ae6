//go:build cgo && linux && soak

package nixl_test

import "time"

// The time of TestSoak over each transport, for `make test` and `make soak`.
const soakLength = time.Minute
