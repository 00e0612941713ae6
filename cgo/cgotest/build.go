package cgotest

import (
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

//go:embed testdata/fake_nixl.c
var source []byte

// Library compiles the fake with the C compiler's flags and returns the path of the library. Flags select variants:
// -DWITHOUT_PLUGINS leaves a function out, -DNO_PLUGINS finds none. Without a C compiler the test is skipped.
func Library(tb testing.TB, flags ...string) string {
	tb.Helper()
	compiler, err := exec.LookPath("gcc")
	if err != nil {
		tb.Skip("no gcc in PATH to build the fake library with")
	}
	dir := tb.TempDir()
	from, to := filepath.Join(dir, "fake_nixl.c"), filepath.Join(dir, "libnixl_capi.so")
	if err := os.WriteFile(from, source, 0o600); err != nil {
		tb.Fatal(err)
	}
	args := append([]string{"-shared", "-fPIC", "-Wall", "-Werror", "-o", to, from}, flags...)
	if out, err := exec.CommandContext(tb.Context(), compiler, args...).CombinedOutput(); err != nil {
		tb.Fatalf("cannot build the fake library: %v\n%s", err, out)
	}
	return to
}
