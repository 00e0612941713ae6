//go:build invariants

package radix

// invariants turns on checks that cost more than what they check. Tests are run with them.
const invariants = true
