package testkit

import (
	"os"
	"os/exec"
	"testing"
)

const inner = "WARMPATH_TEST_INNER"

// Inner runs the calling test once more in a process of its own and returns its output. There
// isInner is true and nothing is run.
func Inner(t *testing.T) (isInner bool, output string, err error) {
	t.Helper()
	if os.Getenv(inner) == t.Name() {
		return true, "", nil
	}
	again := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	again.Env = append(os.Environ(), inner+"="+t.Name())
	out, err := again.CombinedOutput()
	return false, string(out), err
}
