//go:build !invariants

package radix

// invariants is off: the compiler drops the checks.
const invariants = false
