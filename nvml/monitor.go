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

// EnvLibrary names a library to read instead of the driver's own; doctor and node use it.
const EnvLibrary = "WARMPATH_NVML"

var (
	// ErrHung is returned while a call into the driver does not return; its thread is
	// abandoned, since C cannot be interrupted.
	ErrHung = errors.New("nvml: the driver hangs")
	// ErrRunning is returned by a second Run of one monitor.
	ErrRunning = errors.New("nvml: monitor is already running")
)

const (
	defaultEvery = time.Second
	// waitSlice bounds the delay of a shutdown by a wait for XIDs. The end of each wait wakes
	// Go's sysmon thread for some milliseconds: five waits a second cost 6 ms of CPU a second
	// on a busy machine, one costs 1 ms.
	waitSlice = time.Second
	// grace bounds Run's wait for a read in progress, or for the rest of waitSlice. A read of 8
	// GPUs takes tens of milliseconds, but an overloaded machine may not run its thread for 1
	// or 2 s.
	grace, graceTicks = 5 * time.Second, 50
)

// Config selects the driver and the period of reads.
type Config struct {
	// Library is the path or name of NVML's library; "" is libnvidia-ml.so.1, found by the
	// loader.
	Library string
	// Every is the time between two reads, 1 s when 0. An XID triggers a read at once.
	Every time.Duration
}

// Monitor reads the GPUs of this machine periodically, on its own thread, and keeps the newest
// snapshot. Of several in one process, one reads and the others wait for its end.
type Monitor struct {
	cfg     Config
	once    bool // one read is enough
	current atomic.Pointer[Snapshot]
	call    atomic.Pointer[call]
	running atomic.Bool
}

// call is a call into the driver in progress.
type call struct {
	symbol string
	since  time.Time
}

// source is a driver. Only the reader goroutine uses it.
type source interface {
	// read never fails: a driver that cannot be read is a state.
	read() *Snapshot
	// wait returns true as soon as an event calls for a read, false after d or when stop is
	// closed.
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

// Snapshot returns the newest snapshot, never nil. It costs one atomic load and never waits for
// the driver: while that hangs, At grows old.
func (m *Monitor) Snapshot() *Snapshot { return m.current.Load() }

// Busy names the call into the driver in progress and its duration until now; "" for none. A
// call that takes seconds hangs.
func (m *Monitor) Busy(now time.Time) (symbol string, duration time.Duration) {
	c := m.call.Load()
	if c == nil {
		return "", 0
	}
	return c.symbol, now.Sub(c.since)
}

// Run reads until ctx ends and then returns nil, or ErrHung if the driver does not return
// within 5 s.
func (m *Monitor) Run(ctx context.Context) error {
	if m.running.Swap(true) {
		return ErrRunning
	}
	ended := make(chan struct{})
	go func() {
		// The thread is not unlocked: it ends with the goroutine, and with it the driver's
		// thread state.
		runtime.LockOSThread()
		m.readLoop(ctx)
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
	if endsInTime(ended, tick.C) {
		return nil
	}
	symbol, duration := m.Busy(time.Now())
	return fmt.Errorf("%w: in %s for %s", ErrHung, symbol, duration.Round(time.Millisecond))
}

// endsInTime waits for the reader during the ticks of grace. It counts ticks instead of reading
// a clock: while the whole process was stopped the reader could not end, and a ticker drops the
// ticks of that time.
func endsInTime(ended <-chan struct{}, tick <-chan time.Time) bool {
	for range graceTicks {
		select {
		case <-ended:
			return true
		case <-tick:
		}
	}
	return false
}

// readLoop makes all calls into the driver.
func (m *Monitor) readLoop(ctx context.Context) {
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
		event := false
		for !event && ctx.Err() == nil {
			left := m.cfg.Every - time.Since(start)
			if left <= 0 {
				break
			}
			event = src.wait(min(left, waitSlice), ctx.Done())
		}
		// A crashing program makes thousands of XIDs, which must not cause as many reads.
		if early := m.cfg.Every/10 - time.Since(start); event && early > 0 {
			pause(early, ctx.Done())
		}
	}
}

// publish replaces the snapshot and wakes its waiters.
func (m *Monitor) publish(s *Snapshot) {
	s.next = make(chan struct{})
	old := m.current.Swap(s)
	close(old.next)
}

// Read reads once. It gives up when ctx ends, and leaves a hanging driver behind.
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
	// The end of Run releases the driver before Read returns.
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
