//go:build !linux

package ingress

// fileLimit returns the number of files that this process may have open, 0 where it is not known.
func fileLimit() int { return 0 }
