//go:build engines

package engines_test

import (
	"os"
	"testing"

	"github.com/warmpath/warmpath/dataplane/leaktest"
)

// TestMain deletes what engines leave in the folder of temporary files, also when they were killed.
func TestMain(m *testing.M) {
	leaktest.Folder()
	os.Exit(m.Run())
}
