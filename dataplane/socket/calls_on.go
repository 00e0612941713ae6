//go:build invariants

package socket

import (
	"sync/atomic"
	"syscall"
)

// Moved and Empty count the system calls of the process's sockets, for tests of what a request
// costs: those that moved bytes, and those that found nothing to move.
var Moved, Empty atomic.Uint64

func count(errno syscall.Errno) {
	if errno == 0 {
		Moved.Add(1)
	} else {
		Empty.Add(1)
	}
}
