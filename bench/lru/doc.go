// Package lru orders keys by their last use, for the simulated caches of benchmarks.
//
// # Concurrency
//
// A [Cache] belongs to one goroutine.
package lru
