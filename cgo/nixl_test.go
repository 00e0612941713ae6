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

	"github.com/warmpath/warmpath/cgo"
	"github.com/warmpath/warmpath/cgo/cgotest"
)

func TestOpenSaysWhatIsMissing(t *testing.T) {
	junk := filepath.Join(t.TempDir(), "junk.so")
	if err := os.WriteFile(junk, []byte("not a library, whatever its name"), 0o600); err != nil {
		t.Fatal(err)
	}
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
				t.Errorf("Open(%q) = %q, want the words %q", test.path, err, test.text)
			}
		})
	}
}

func TestAgentLife(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	tests := []struct {
		name  string
		flags []string
		want  []string
	}{
		{"two plugins", nil, []string{"UCX", "POSIX"}},
		{"none", []string{"-DNO_PLUGINS"}, nil},
	}
	for _, test := range tests {
		lib, err := cgo.Open(cgotest.Library(t, test.flags...))
		if err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		agent, err := lib.CreateAgent("test")
		if err != nil {
			t.Fatalf("%s: CreateAgent: %v", test.name, err)
		}
		got, err := lib.Plugins(agent)
		if err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%s: Plugins() = %q, %v, want %q", test.name, got, err, test.want)
		}
		if err := lib.DestroyAgent(agent); err != nil {
			t.Errorf("%s: DestroyAgent: %v", test.name, err)
		}
	}
}

func TestRefusalsAreStatuses(t *testing.T) {
	lib, err := cgo.Open(cgotest.Library(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lib.CreateAgent(""); !errors.Is(err, cgo.ErrInvalidParam) {
		t.Errorf(`CreateAgent("") = %v, want %v`, err, cgo.ErrInvalidParam)
	}
	if _, err := lib.CreateAgent("refuse"); !errors.Is(err, cgo.ErrBackend) {
		t.Errorf(`CreateAgent("refuse") = %v, want %v`, err, cgo.ErrBackend)
	}
}
