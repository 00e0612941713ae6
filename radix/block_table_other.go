//go:build !amd64 || purego || race

package radix

// insertVector leaves all to insertOne, also under the race detector, which does not see
// assembly.
func insertVector(*blockTable, []uint64, uint64) (done int) { return 0 }

// probeAlign clears nothing of a slot's index.
func probeAlign() uint64 { return 0 }
