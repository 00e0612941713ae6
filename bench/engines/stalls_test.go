//go:build engines

package engines_test

import (
	"runtime"
	"sync"
	"syscall"
	"time"
)

const (
	// stallLeast is a delay of a process that wants to run which the promise of exactness does not cover: the router believes for 100 ms what an
	// answer leaves in a cache, and has the events by then, unless it or the engine stands still.
	stallLeast = 50 * time.Millisecond
	// stallLasts is how long after a stall the router may still be behind.
	stallLasts = 2 * time.Second
)

// stalls notes when an engine that wanted to run would not have been let.
type stalls struct {
	end  chan struct{}
	done sync.WaitGroup
	at   []time.Time // ends of stalls, in order; read after the end
}

// watchStalls looks until stop is called.
func watchStalls() *stalls {
	s := &stalls{end: make(chan struct{})}
	s.done.Go(func() {
		// The thread, which ends with the goroutine, waits for a core as the engines do: serve.sh starts them
		// five steps nicer than the test, which a busy machine therefore lets run long before them.
		runtime.LockOSThread()
		priority, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0) // 20 less the niceness
		if err == nil {
			err = syscall.Setpriority(syscall.PRIO_PROCESS, 0, 20-priority+5) // the kernel stops at 19
		}
		if err != nil {
			panic(err)
		}
		const every = 5 * time.Millisecond
		tick := time.NewTicker(every)
		defer tick.Stop()
		for last := time.Now(); ; {
			select {
			case <-s.end:
				return
			case <-tick.C:
			}
			now := time.Now()
			if now.Sub(last) > every+stallLeast {
				s.at = append(s.at, now)
			}
			last = now
		}
	})
	return s
}

func (s *stalls) stop() {
	close(s.end)
	s.done.Wait()
}

// hit reports whether a stall ended between shortly before a request began and its end.
func (s *stalls) hit(o *outcome) bool {
	if s == nil || o.at.IsZero() {
		return false
	}
	for _, at := range s.at {
		if at.After(o.at.Add(-stallLasts)) && at.Before(o.at.Add(o.took)) {
			return true
		}
	}
	return false
}
