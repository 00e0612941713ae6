package nvml

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"
)

// EnvLibrary names the library to read instead of the driver's own; doctor and node heed it.
const EnvLibrary = "WARMPATH_NVML"

var (
	// ErrHung says that a call into the driver has not come back; its thread is left behind, for C cannot be interrupted.
	ErrHung = errors.New("nvml: the driver hangs")
	// ErrRunning is returned by a second Run of one monitor.
	ErrRunning = errors.New("nvml: monitor is already running")
)

const (
	defaultEvery = time.Second
	// waitSlice bounds how long a wait for XIDs may hold up a shutdown. Each wait that ends wakes Go's monitor of system calls, which looks
	// around for some milliseconds: five waits a second cost 6 ms of CPU a second on a busy machine, one costs 1.
	waitSlice = time.Second
	// grace is how long Run waits at its end for a read that is under way, or for the rest of waitSlice; a read of 8 GPUs takes tens of
	// milliseconds, but on a machine with more to do than cores its thread may be kept waiting for a second or two.
	grace, graceTicks = 5 * time.Second, 50
)

// Config says where the driver is and how often it is read.
type Config struct {
	// Library is the path or name of NVML's library; empty means libnvidia-ml.so.1, where the loader finds it.
	Library string
	// Every is the time between two reads, 1 s when 0. An XID is followed by a read at once.
	Every time.Duration
}

// Monitor reads the GPUs of this machine again and again, on a thread of its own, and keeps the newest snapshot. Of
// several in one process, one reads and the others wait for its end.
type Monitor struct {
	cfg     Config
	once    bool // one read is enough
	current atomic.Pointer[Snapshot]
	call    atomic.Pointer[call]
	running atomic.Bool
}

// call is a call into the driver that is under way.
type call struct {
	symbol string
	since  time.Time
}

// source is a driver. Only the owner goroutine uses it.
type source interface {
	// read never fails: what cannot be read is a state.
	read() *Snapshot
	// wait returns true as soon as something has happened that calls for a read, false after d or when stop is closed.
	wait(d time.Duration, stop <-chan struct{}) bool
	close()
}

// New returns a monitor that has read nothing yet.
func New(cfg Config) *Monitor {
	cfg.Every = cmp.Or(cfg.Every, defaultEvery)
	m := &Monitor{cfg: cfg}
	m.current.Store(&Snapshot{State: StateStarting, next: make(chan struct{})})
	return m
}

// Snapshot returns the newest snapshot, never nil. It costs one atomic load and never waits for the driver: where that
// hangs, At grows old.
func (m *Monitor) Snapshot() *Snapshot { return m.current.Load() }

// Busy says which call into the driver is under way, and for how long it has been at now; "" when none is. One that
// takes seconds hangs.
func (m *Monitor) Busy(now time.Time) (symbol string, since time.Duration) {
	c := m.call.Load()
	if c == nil {
		return "", 0
	}
	return c.symbol, now.Sub(c.since)
}

// Run reads until ctx ends, and returns nil then; ErrHung if the driver does not come back within 5 s of that.
func (m *Monitor) Run(ctx context.Context) error {
	if m.running.Swap(true) {
		return ErrRunning
	}
	ended := make(chan struct{})
	go func() {
		// The thread is not unlocked, so it ends with the goroutine and takes along what the driver has tied to it.
		runtime.LockOSThread()
		m.own(ctx)
		m.running.Store(false)
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
	}
	tick := time.NewTicker(grace / graceTicks)
	defer tick.Stop()
	if comesBack(ended, tick.C) {
		return nil
	}
	symbol, since := m.Busy(time.Now())
	return fmt.Errorf("%w: in %s for %s", ErrHung, symbol, since.Round(time.Millisecond))
}

// comesBack waits for the owner through all ticks of grace. They are counted, not looked up on a clock: while the whole process stood
// still, nobody could come back, and a ticker misses what it would have told meanwhile.
func comesBack(ended <-chan struct{}, tick <-chan time.Time) bool {
	for range graceTicks {
		select {
		case <-ended:
			return true
		case <-tick:
		}
	}
	return false
}

// own is the owner of all calls into the driver.
func (m *Monitor) own(ctx context.Context) {
	src := openDriver(m.cfg, &m.call, ctx.Done())
	if src == nil {
		return
	}
	defer src.close()
	for ctx.Err() == nil {
		start := time.Now()
		m.publish(src.read())
		if m.once {
			return
		}
		happened := false
		for !happened && ctx.Err() == nil {
			left := m.cfg.Every - time.Since(start)
			if left <= 0 {
				break
			}
			happened = src.wait(min(left, waitSlice), ctx.Done())
		}
		// A crashing program makes thousands of XIDs; they must not turn into as many reads.
		if early := m.cfg.Every/10 - time.Since(start); happened && early > 0 {
			pause(early, ctx.Done())
		}
	}
}

// publish replaces the snapshot and wakes those that wait for it.
func (m *Monitor) publish(s *Snapshot) {
	s.next = make(chan struct{})
	old := m.current.Swap(s)
	close(old.next)
}

// Read reads once. It gives up when ctx ends, and leaves a driver that hangs to itself.
func Read(ctx context.Context, cfg Config) (*Snapshot, error) {
	m := New(cfg)
	m.once = true
	first := m.Snapshot().Next()
	reading, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- m.Run(reading) }()
	select {
	case <-first:
	case <-ctx.Done():
	}
	s := m.Snapshot()
	// The end of Run is awaited, so that the driver is free again when Read returns.
	stop()
	err := <-ended
	if s.State == StateStarting {
		return nil, cmp.Or(err, ctx.Err())
	}
	return s, ctx.Err()
}

// pause waits for d, or until stop is closed.
func pause(d time.Duration, stop <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-stop:
	}
}
