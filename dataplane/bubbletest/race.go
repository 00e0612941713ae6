//go:build race

package bubbletest

import (
	"runtime"
	"sync"
)

// one is held while there is one processor, for a bubble.
var one sync.Mutex

func alone() (end func()) {
	one.Lock()
	before := runtime.GOMAXPROCS(1)
	return func() {
		runtime.GOMAXPROCS(before)
		one.Unlock()
	}
}
