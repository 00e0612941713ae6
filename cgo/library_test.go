//go:build cgo && linux

package cgo_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/cgo"
	"github.com/warmpath/warmpath/cgo/cgotest"
)

func TestOpenNamesTheMissingPart(t *testing.T) {
	junk := filepath.Join(t.TempDir(), "junk.so")
	require.NoError(t, os.WriteFile(junk, []byte("not a library"), 0o600))
	tests := []struct {
		name, path string
		want       error
		text       string
	}{
		{"absent file", "/nonexistent/libnixl_capi.so", cgo.ErrOpen, "No such file"},
		{"absent name", "libwarmpath_no_such_library.so", cgo.ErrOpen, "cannot open shared object file"},
		{"not a library", junk, cgo.ErrOpen, "junk.so"},
		{"lacks a function", cgotest.Library(t, "-DWITHOUT_PLUGINS"), cgo.ErrSymbol, "nixl_capi_get_available_plugins"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			lib, err := cgo.Open(test.path)
			if lib != nil || !errors.Is(err, test.want) {
				t.Fatalf("Open(%q) = %v, %v, want nil, %v", test.path, lib, err, test.want)
			}
			if !strings.Contains(err.Error(), test.text) {
				t.Errorf("Open(%q) = %q, want the text %q", test.path, err, test.text)
			}
		})
	}
}

func open(t *testing.T, flags ...string) *cgo.Library {
	t.Helper()
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	lib, err := cgo.Open(cgotest.Library(t, flags...))
	require.NoError(t, err)
	return lib
}

func TestAgentLife(t *testing.T) {
	tests := []struct {
		name  string
		flags []string
		want  []string
	}{
		{"two plugins", nil, []string{"UCX", "POSIX"}},
		{"none", []string{"-DNO_PLUGINS"}, nil},
	}
	for _, test := range tests {
		lib := open(t, test.flags...)
		agent, err := lib.CreateAgent("test")
		if err != nil {
			t.Fatalf("%s: CreateAgent: %v", test.name, err)
		}
		got, err := agent.Plugins()
		if err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%s: Plugins() = %q, %v, want %q", test.name, got, err, test.want)
		}
		if err := agent.Destroy(); err != nil {
			t.Errorf("%s: Destroy: %v", test.name, err)
		}
	}
}

func TestRefusalsAreStatuses(t *testing.T) {
	lib := open(t)
	if _, err := lib.CreateAgent(""); !errors.Is(err, cgo.ErrInvalidParam) {
		t.Errorf(`CreateAgent("") = %v, want %v`, err, cgo.ErrInvalidParam)
	}
	if _, err := lib.CreateAgent("refuse"); !errors.Is(err, cgo.ErrBackend) {
		t.Errorf(`CreateAgent("refuse") = %v, want %v`, err, cgo.ErrBackend)
	}
	agent := create(t, lib, "full")
	page := cgo.Region{Addr: 4096, Len: 1}
	tests := []struct {
		name string
		err  error
		want cgo.StatusError
	}{
		{"a backend that is not installed", agent.CreateBackend("POSIX"), cgo.ErrNotFound},
		{"memory that cannot be registered", agent.Register([]cgo.Region{page}), cgo.ErrBackend},
		{"memory without bytes", agent.Register([]cgo.Region{{}}), cgo.ErrInvalidParam},
		{"memory that is not registered", agent.Deregister([]cgo.Region{page}), cgo.ErrNotFound},
		{"an unknown peer", agent.ForgetPeer("nobody"), cgo.ErrNotFound},
	}
	for _, test := range tests {
		if !errors.Is(test.err, test.want) {
			t.Errorf("%s: %v, want %v", test.name, test.err, test.want)
		}
	}
	if _, err := agent.LoadPeer([]byte("garbage!")); !errors.Is(err, cgo.ErrBackend) {
		t.Errorf("LoadPeer of garbage = %v, want %v", err, cgo.ErrBackend)
	}
	if _, err := agent.LoadPeer(nil); !errors.Is(err, cgo.ErrInvalidParam) {
		t.Errorf("LoadPeer of nothing = %v, want %v", err, cgo.ErrInvalidParam)
	}
}

// create makes an agent over UCX.
func create(t *testing.T, lib *cgo.Library, name string) *cgo.Agent {
	t.Helper()
	agent, err := lib.CreateAgent(name)
	require.NoError(t, err)
	require.NoError(t, agent.CreateBackend("UCX"))
	t.Cleanup(func() {
		if err := agent.Destroy(); err != nil {
			t.Errorf("Destroy: %v", err)
		}
	})
	return agent
}
