package sidecar

import (
	"os"
	"runtime"
	"runtime/debug"
)

const (
	// frugalPercent lets the heap grow by half before the collector runs: every half a minute where it
	// is the sidecar's own 4 MB, and as seldom where a large KV tier has an index of 100 MB.
	frugalPercent = 50
	// frugalThreads is enough for a process that does nothing most of the time; each more has
	// caches of its own.
	frugalThreads = 2
)

// Frugal sets the runtime for a process that is a sidecar and nothing else. It keeps what the
// operator has set by GOGC and GOMAXPROCS.
func Frugal() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(frugalPercent)
	}
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(min(frugalThreads, runtime.NumCPU()))
	}
}
