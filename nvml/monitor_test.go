//go:build cgo && linux

package nvml_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/nvml"
	"github.com/warmpath/warmpath/nvml/nvmltest"
)

func ready(s *nvml.Snapshot) bool { return s.State == nvml.StateReady }

func TestStates(t *testing.T) {
	tests := []struct {
		name   string
		init   int
		state  nvml.State
		detail string
	}{
		{"module not loaded", nvmltest.DriverNotLoaded, nvml.StateNoDriver, "Driver Not Loaded"},
		{"no permission", nvmltest.NoPermission, nvml.StateNoDriver, "(4)"},
		{"replaced under us", nvmltest.LibraryMismatch, nvml.StateBroken, "restart this process"},
		{"something else", 999, nvml.StateBroken, "Unknown Error"},
		{"well", 0, nvml.StateReady, ""},
	}
	// One monitor for all: each state must be left again without help.
	m := start(t, nvmltest.State{Init: tests[0].init})
	for _, test := range tests {
		s := nvmltest.HGX()
		s.Init = test.init
		set(t, s)
		require.NoError(t, fake.Reload())
		got := await(t, m, test.name, func(s *nvml.Snapshot) bool {
			return s.State == test.state && strings.Contains(s.Detail, test.detail)
		})
		assert.Equal(t, test.init == 0, len(got.GPUs) == 8, test.name)
	}
}

func TestNoLibraryIsAState(t *testing.T) {
	s, err := nvml.Read(t.Context(), nvml.Config{Library: "/nonexistent/libnvidia-ml.so.1"})
	require.NoError(t, err)
	assert.Equal(t, nvml.StateNoDriver, s.State)
	assert.Contains(t, s.Detail, "/nonexistent/libnvidia-ml.so.1")
	assert.Empty(t, s.GPUs)
}

func TestNotNVML(t *testing.T) {
	if !inChild(t, "not nvml") {
		return
	}
	set(t, nvmltest.State{})
	s, err := nvml.Read(t.Context(), nvml.Config{Library: fake.Library})
	require.NoError(t, err)
	assert.Equal(t, nvml.StateNoDriver, s.State)
	assert.Contains(t, s.Detail, "nvmlInit_v2")
}

func TestNewMonitorHasASnapshot(t *testing.T) {
	m := nvml.New(nvml.Config{})
	assert.Equal(t, nvml.StateStarting, m.Snapshot().State)
	symbol, since := m.Busy(time.Now())
	assert.Empty(t, symbol)
	assert.Zero(t, since)
}

func TestRunTwice(t *testing.T) {
	m := start(t, nvmltest.HGX())
	await(t, m, "GPUs", ready)
	assert.ErrorIs(t, m.Run(t.Context()), nvml.ErrRunning)
}

func TestRunAgain(t *testing.T) {
	set(t, nvmltest.HGX())
	m := nvml.New(nvml.Config{Library: fake.Library})
	for range 3 {
		ctx, stop := context.WithCancel(t.Context())
		next := m.Snapshot().Next()
		ended := make(chan error, 1)
		go func() { ended <- m.Run(ctx) }()
		<-next
		stop()
		require.NoError(t, <-ended)
		assert.Len(t, m.Snapshot().GPUs, 8)
	}
}

func TestDriverReload(t *testing.T) {
	m := start(t, nvmltest.HGX())
	before := await(t, m, "GPUs", ready)
	require.NoError(t, fake.XID(3, 95))
	await(t, m, "the XID", func(s *nvml.Snapshot) bool { return ready(s) && len(s.GPUs[3].XIDs) == 1 })

	require.NoError(t, fake.Reload())
	after := await(t, m, "the driver initialized again", func(s *nvml.Snapshot) bool { return s.Since.After(before.Since) })
	assert.Equal(t, nvml.StateReady, after.State)
	assert.Len(t, after.GPUs, 8)
	assert.Empty(t, after.GPUs[3].XIDs, "XIDs of a driver that is no more")
	assert.False(t, after.GPUs[3].Since.Before(after.Since))

	require.NoError(t, fake.XID(3, 13))
	await(t, m, "an XID after the reload", func(s *nvml.Snapshot) bool { return ready(s) && len(s.GPUs[3].XIDs) == 1 })
}

// A call that does not return leaves callers with the last snapshot, and Busy names it.
func TestHangingCall(t *testing.T) {
	m := start(t, nvmltest.HGX())
	await(t, m, "GPUs", ready)
	for _, symbol := range []string{"nvmlDeviceGetMemoryInfo_v2", "nvmlEventSetWait_v2", "nvmlDeviceGetHandleByIndex_v2"} {
		update(t, func(s *nvmltest.State) { s.Hang = symbol })
		for busy := ""; busy != symbol; busy, _ = m.Busy(time.Now()) {
			assert.Len(t, m.Snapshot().GPUs, 8)
			time.Sleep(100 * time.Microsecond)
		}
		stale := m.Snapshot()
		_, since := m.Busy(time.Now().Add(time.Hour))
		assert.GreaterOrEqual(t, since, time.Hour)
		assert.Len(t, stale.GPUs, 8, "the last snapshot stays")

		update(t, func(s *nvmltest.State) { s.Hang = "" })
		assert.NotSame(t, stale, anew(t, m), "reads go on once the call comes back")
	}
}

func TestShutdownDoesNotWaitForAHangingCall(t *testing.T) {
	const symbol = "nvmlDeviceGetPowerUsage"
	s := nvmltest.HGX()
	s.Hang = symbol
	set(t, s)
	m := nvml.New(nvml.Config{Library: fake.Library})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	for busy := ""; busy != symbol; time.Sleep(time.Millisecond) {
		busy, _ = m.Busy(time.Now())
	}
	stop()
	err := <-ended
	require.ErrorIs(t, err, nvml.ErrHung)
	assert.Contains(t, err.Error(), symbol)
	assert.ErrorIs(t, m.Run(t.Context()), nvml.ErrRunning, "its thread is still in the call")

	// The call returns, and the thread ends.
	update(t, func(s *nvmltest.State) { s.Hang = "" })
	done, cancel := context.WithCancel(t.Context())
	cancel()
	for err = nvml.ErrRunning; errors.Is(err, nvml.ErrRunning); time.Sleep(time.Millisecond) {
		err = m.Run(done)
	}
	assert.NoError(t, err)
}

func TestReadGivesUp(t *testing.T) {
	const symbol = "nvmlDeviceGetName"
	s := nvmltest.HGX()
	s.Hang = symbol
	set(t, s)
	defer func() {
		update(t, func(s *nvmltest.State) { s.Hang = "" })
		// The abandoned read goes on, and must not meet the hanging function of the next test.
		_, err := nvml.Read(t.Context(), nvml.Config{Library: fake.Library})
		assert.NoError(t, err)
	}()
	for limit := 10 * time.Millisecond; ; limit *= 2 {
		ctx, stop := context.WithTimeout(t.Context(), limit)
		got, err := nvml.Read(ctx, nvml.Config{Library: fake.Library})
		stop()
		assert.Nil(t, got)
		if !errors.Is(err, context.DeadlineExceeded) { // before the call that hangs
			require.ErrorIs(t, err, nvml.ErrHung)
			return
		}
	}
}

// Snapshots never change once published: the race detector would report it.
func TestManyReaders(t *testing.T) {
	m := start(t, nvmltest.HGX())
	await(t, m, "GPUs", ready)
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-m.Snapshot().Next():
				}
				for _, g := range m.Snapshot().GPUs {
					for i := range g.Links {
						_ = g.Links[i].Sent.Or(0) + g.Memory.Used.Or(0) + uint64(len(g.XIDs))
					}
				}
			}
		})
	}
	for i := range 20 {
		require.NoError(t, fake.XID(i%8, 31))
		update(t, func(s *nvmltest.State) { s.GPUs[i%8].Used++ })
		anew(t, m)
	}
	close(stop)
	wg.Wait()
}

func TestSnapshotDoesNotAllocate(t *testing.T) {
	m := nvml.New(nvml.Config{})
	if n := testing.AllocsPerRun(100, func() { _ = m.Snapshot().At }); n != 0 {
		t.Errorf("Snapshot allocates %v times, want 0", n)
	}
}
