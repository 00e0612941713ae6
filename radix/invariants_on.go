//go:build invariants

package radix

// invariants turns on checks that cost more than the code they check. Tests run with them.
const invariants = true
