// Package history keeps the traffic of the last quarter of an hour and of the last day, in rows of
// five seconds and of two minutes.
//
// A row is the difference between two readings of counts that the router has anyway: nothing is
// counted for it. The rows take 300 KB at most, and end with the process.
//
// # Concurrency
//
// Run is called once. Report may be called from any goroutine.
//
// # Ownership
//
// Histograms of Counts are kept until the next reading, so their source must not reuse them.
package history
