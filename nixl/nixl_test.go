//go:build cgo && linux

package nixl_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/cgo"
	"github.com/warmpath/warmpath/cgo/cgotest"
	"github.com/warmpath/warmpath/dataplane/leaktest"
	"github.com/warmpath/warmpath/nixl"
	"github.com/warmpath/warmpath/nixl/nixltest"
)

func TestMain(m *testing.M) {
	if os.Getenv(peerEnv) != "" {
		os.Exit(peerMain())
	}
	leaktest.Main(m)
}

func openFake(t *testing.T, flags ...string) *nixl.Library {
	t.Helper()
	lib, err := nixl.Open(cgotest.Library(t, flags...))
	require.NoError(t, err)
	return lib
}

// The fake refuses a call from another thread than the agent's own, so a stray call fails this
// test.
func TestAgentCallsStayOnOneThread(t *testing.T) {
	a, err := nixl.NewAgent(openFake(t), nixl.Config{})
	require.NoError(t, err)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			if _, err := a.Metadata(); err != nil {
				t.Errorf("Metadata: %v", err)
			}
		})
	}
	wg.Wait()
	if err := a.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// Calls that race with Close are either made or refused, and none hangs.
func TestAgentClose(t *testing.T) {
	a, err := nixl.NewAgent(openFake(t), nixl.Config{})
	require.NoError(t, err)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, err := a.Metadata(); err != nil && !errors.Is(err, nixl.ErrClosed) {
				t.Errorf("Metadata = %v, want nil or %v", err, nixl.ErrClosed)
			}
		})
	}
	for range 2 {
		if err := a.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	wg.Wait()
	if _, err := a.Metadata(); !errors.Is(err, nixl.ErrClosed) {
		t.Errorf("Metadata after Close = %v, want %v", err, nixl.ErrClosed)
	}
}

func TestNewAgentRefused(t *testing.T) {
	a, err := nixl.NewAgent(openFake(t), nixl.Config{Name: "refuse"})
	if a != nil || !errors.Is(err, cgo.ErrBackend) {
		t.Errorf("NewAgent = %v, %v, want nil, %v", a, err, cgo.ErrBackend)
	}
}

func TestOpenSearches(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("CONDA_PREFIX", "")
	t.Setenv("VIRTUAL_ENV", "")
	t.Setenv(nixl.EnvLibrary, "")
	wheel := filepath.Join(home, ".local/lib/python3.11/site-packages/.nixl_cu13.mesonpy.libs")
	require.NoError(t, os.MkdirAll(wheel, 0o700))
	inWheel := filepath.Join(wheel, "libnixl_capi.so")
	require.NoError(t, os.Rename(cgotest.Library(t), inWheel))
	if paths := nixl.Find(); !slices.Contains(paths, inWheel) || paths[len(paths)-1] != "libnixl_capi.so" {
		t.Errorf("Find() = %q, want %q in it and the bare name last", paths, inWheel)
	}
	lib, err := nixl.Open("")
	if err != nil || !strings.HasSuffix(lib.Path(), "libnixl_capi.so") {
		t.Errorf("Open = %v, want a library", err)
	}
	named := "/nonexistent/named.so"
	t.Setenv(nixl.EnvLibrary, named)
	if _, err := nixl.Open(""); !errors.Is(err, nixl.ErrNotFound) || !strings.Contains(err.Error(), named) {
		t.Errorf("Open with %s=%s = %v, want %v and the path", nixl.EnvLibrary, named, err, nixl.ErrNotFound)
	}
}

func TestRealLibrary(t *testing.T) {
	lib, err := nixl.Open(nixltest.Library(t))
	require.NoError(t, err)
	names, err := lib.Plugins()
	if err != nil || !slices.Contains(names, "UCX") {
		t.Errorf("Plugins() = %q, %v, want UCX among them", names, err)
	}
	t.Logf("%s: plugins %q", lib.Path(), names)
}
