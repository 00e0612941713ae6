//go:build soak

package store

import "time"

// The time of TestSoak, for `make test` and `make soak`.
const soakLength = 10 * time.Second
