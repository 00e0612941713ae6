// Package nixltest supports tests that use NIXL: [Loopback] stands in for the library within
// one process, with its rules and with faults on demand; [Library] finds the real library;
// [User] starts processes as other users and in other namespaces.
package nixltest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/warmpath/warmpath/nixl"
)

// Library returns the path of NIXL's library among the engines of bench/engines or in a Python
// environment. A test is skipped without one.
func Library(t testing.TB) string {
	t.Helper()
	engines := os.Getenv("WARMPATH_ENGINES")
	if home, err := os.UserHomeDir(); engines == "" && err == nil {
		engines = filepath.Join(home, ".cache/warmpath-engines")
	}
	const wheel = "sglang/lib/python3*/site-packages/.nixl_cu*.mesonpy.libs/libnixl_capi.so"
	found, _ := filepath.Glob(filepath.Join(engines, wheel))
	for _, path := range append(found, nixl.Find()...) {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	t.Skip("NIXL is not on this machine: bench/engines/install.sh or " +
		"`pip install --no-deps nixl-cu13==1.5.1` installs it")
	return ""
}
