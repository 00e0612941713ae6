// Package nixltest finds NIXL itself for tests.
package nixltest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/warmpath/warmpath/nixl"
)

// Library is NIXL's library, where it is installed: among the engines of bench/engines, or in a Python environment. A test is skipped without one.
func Library(t testing.TB) string {
	t.Helper()
	engines := os.Getenv("WARMPATH_ENGINES")
	if home, err := os.UserHomeDir(); engines == "" && err == nil {
		engines = filepath.Join(home, ".cache/warmpath-engines")
	}
	found, _ := filepath.Glob(filepath.Join(engines, "sglang/lib/python3*/site-packages/.nixl_cu*.mesonpy.libs/libnixl_capi.so"))
	for _, path := range append(found, nixl.Find()...) {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	t.Skip("NIXL is not on this machine: bench/engines/install.sh or `pip install --no-deps nixl-cu13==1.5.1` brings it")
	return ""
}
