//go:build !cgo || !linux

package nvml

import (
	"sync/atomic"
	"time"
)

// none is the source of a build that cannot load a driver.
type none struct{}

func openDriver(Config, *atomic.Pointer[call], <-chan struct{}) source { return none{} }

func (none) read() *Snapshot {
	return &Snapshot{State: StateNoDriver, Detail: "this binary was built without cgo", At: time.Now()}
}

func (none) wait(d time.Duration, stop <-chan struct{}) bool {
	pause(d, stop)
	return false
}

func (none) close() {}
