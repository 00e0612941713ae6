//go:build cgo && linux

package nvml

import "sync/atomic"

// Reads makes reads without a monitor, for benchmarks.
type Reads struct{ source }

// OpenReads waits until no other goroutine owns the driver.
func OpenReads(library string) Reads {
	return Reads{openDriver(Config{Library: library}, &atomic.Pointer[call]{}, nil)}
}

// Read is one read.
func (r Reads) Read() *Snapshot { return r.read() }

// Close ends the reads.
func (r Reads) Close() { r.close() }
