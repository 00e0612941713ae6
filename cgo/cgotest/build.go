package cgotest

import (
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

//go:embed testdata/fake_nixl.c
var source []byte

// built caches the libraries of this process by flags: a compiler takes longer than most tests.
var built struct {
	mu        sync.Mutex
	libraries map[string][]byte // guarded by mu
}

// Library compiles the fake with the given compiler flags and returns the path of the library.
// Flags select variants: -DWITHOUT_PLUGINS omits a function, -DNO_PLUGINS lists no plugin.
// Without a C compiler the test is skipped.
func Library(tb testing.TB, flags ...string) string {
	tb.Helper()
	key := strings.Join(flags, " ")
	built.mu.Lock()
	defer built.mu.Unlock()
	to := filepath.Join(tb.TempDir(), "libnixl_capi.so")
	if library, ok := built.libraries[key]; ok {
		if err := os.WriteFile(to, library, 0o700); err != nil {
			tb.Fatal(err)
		}
		return to
	}
	compile(tb, to, flags)
	library, err := os.ReadFile(to)
	if err != nil {
		tb.Fatal(err)
	}
	if built.libraries == nil {
		built.libraries = map[string][]byte{}
	}
	built.libraries[key] = library
	return to
}

func compile(tb testing.TB, to string, flags []string) {
	tb.Helper()
	compiler, err := exec.LookPath("gcc")
	if err != nil {
		tb.Skip("no gcc in PATH to build the fake library with")
	}
	from := filepath.Join(tb.TempDir(), "fake_nixl.c")
	if err := os.WriteFile(from, source, 0o600); err != nil {
		tb.Fatal(err)
	}
	args := append([]string{"-shared", "-fPIC", "-Wall", "-Werror", "-o", to, from}, flags...)
	if out, err := exec.CommandContext(tb.Context(), compiler, args...).CombinedOutput(); err != nil {
		tb.Fatalf("cannot build the fake library: %v\n%s", err, out)
	}
}
