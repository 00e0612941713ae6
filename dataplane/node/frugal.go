package node

import (
	"os"
	"runtime"
	"runtime/debug"
)

const (
	// frugalPercent lets the heap of a sidecar, some 4 MB in use, grow by half before the collector runs: every half a minute.
	frugalPercent = 50
	// frugalMemory is where the collector begins to work harder. It bounds what a burst, of XIDs or of scrapes, may leave behind.
	frugalMemory = 32 << 20
	// frugalThreads is enough for a process that does nothing most of the time; each more has caches of its own.
	frugalThreads = 2
)

// Frugal sets the runtime for a process that is a sidecar and nothing else. What the operator has set by GOGC, GOMEMLIMIT and GOMAXPROCS stays.
func Frugal() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(frugalPercent)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(frugalMemory)
	}
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(min(frugalThreads, runtime.NumCPU()))
	}
}
