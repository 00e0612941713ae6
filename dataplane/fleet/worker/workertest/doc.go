// Package workertest has workers for tests and benchmarks that need no network.
package workertest
